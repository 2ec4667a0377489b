#include "cogwheel/cli/interrupt.h"

#include <csignal>

namespace cogwheel::cli {
namespace {

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

void at_signal(int signal) {
  if (!stop_asked.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

const std::atomic<bool>& stop_flag() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_handler = at_signal;
    // Interrupted system calls are restarted: the flag is checked between steps.
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    return true;
  }();
  static_cast<void>(installed);
  return stop_asked;
}

bool take_stop() { return stop_asked.exchange(false); }

void end_on_termination() { std::signal(SIGTERM, SIG_DFL); }

void ask_to_stop() { stop_asked.store(true); }

}  // namespace cogwheel::cli
