#include "cogwheel/cli/closed_pipe.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace cogwheel::cli {

void keep_going_at_closed_pipes() { ::signal(SIGPIPE, SIG_IGN); }

bool reader_left(int descriptor) {
  pollfd asked{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & (POLLERR | POLLHUP)) != 0;
}

bool wrote_to_closed_pipe() {
  return (std::ferror(stdout) != 0 && reader_left(STDOUT_FILENO)) ||
         (std::ferror(stderr) != 0 && reader_left(STDERR_FILENO));
}

void end_as_of_closed_pipe() {
  // What was started from Python, as the installed command is, inherits that the signal is ignored.
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(SIGPIPE);
  std::_Exit(128 + SIGPIPE);
}

}  // namespace cogwheel::cli
