#include "cogwheel/core/process/program_until_stopped.h"

#include <signal.h>

#include <atomic>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

std::atomic<pid_t> running_program = 0;
std::atomic<bool> program_stopped = false;
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler may not take a lock");

void stop_program(int) {
  program_stopped = true;
  if (const pid_t program = running_program; program > 0) ::kill(program, SIGTERM);
}

// What a signal does, until this ends. A signal that this process ignores stays ignored.
class SignalAction {
 public:
  SignalAction(int signal, void (*handler)(int)) : signal_(signal) {
    ::sigaction(signal, nullptr, &before_);
    set(handler);
  }
  SignalAction(const SignalAction&) = delete;
  SignalAction& operator=(const SignalAction&) = delete;
  ~SignalAction() { ::sigaction(signal_, &before_, nullptr); }

  void set(void (*handler)(int)) const {
    if (before_.sa_handler == SIG_IGN) return;
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal_, &action, nullptr);
  }

 private:
  int signal_;
  struct sigaction before_ {};
};

}  // namespace

Finished run_until_stopped(const std::vector<std::string>& command, const Process::Options& options,
                           const std::string& message) {
  program_stopped = false;
  const SignalAction at_termination(SIGTERM, stop_program);
  const SignalAction at_interrupt(SIGINT, SIG_IGN);  // which a program inherits
  Process program(command, options);
  running_program = program.id();
  at_interrupt.set(stop_program);
  if (program_stopped) stop_program(SIGTERM);  // before there was one
  Finished finished = program.wait();
  running_program = 0;
  if (program_stopped) throw Interrupted(message);
  return finished;
}

}  // namespace cogwheel
