#include <c10/util/Exception.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "cogwheel/cli/allocator.h"
#include "cogwheel/cli/closed_pipe.h"
#include "cogwheel/cli/command_line.h"
#include "cogwheel/cli/wait_policy.h"
#include "cogwheel/core/error.h"

namespace {

int fail(const std::string& message, int exit_code) {
  if (cogwheel::cli::wrote_to_closed_pipe()) cogwheel::cli::end_as_of_closed_pipe();
  std::fprintf(stderr, "cogwheel: %s\n", message.c_str());
  return exit_code;
}

// Buffered output may still fail when it is written to a pipe or file.
int finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return fail(cogwheel::expected_got("standard output", "something that can be written to", std::strerror(errno)), 1);
}

}  // namespace

int main(int argc, char** argv) {
  cogwheel::cli::sleep_where_the_machine_is_busy(argv);
  cogwheel::cli::keep_freed_memory();
  cogwheel::cli::keep_going_at_closed_pipes();
  // At the limit on file sizes a write must fail with an error instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    cogwheel::cli::run_command_line(argc, argv);
  } catch (const cogwheel::Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const c10::Error& error) {
    return fail(cogwheel::one_line(error.what_without_backtrace()), 1);  // libtorch's messages have several lines
  } catch (const std::bad_alloc&) {
    return fail("memory: expected enough for the job, got none", 1);
  } catch (const std::exception& error) {
    return fail(cogwheel::one_line(error.what()), 1);
  }
  return finish();
}
