// Ctrl-C: the first asks the job to save and stop, the second ends the process at once.
#pragma once
#include <atomic>

#include "cogwheel/core/error.h"

namespace cogwheel::cli {

// Installs the handler for SIGINT and SIGTERM, once, and returns the flag that it sets.
const std::atomic<bool>& stop_flag();

// Whether Ctrl-C has asked to stop since the last call; the next is the first again.
bool take_stop();

// From now on SIGTERM ends the process at once: for a conversation, which has nothing to save and stops for no flag.
void end_on_termination();

// Sets it, as the first Ctrl-C does.
void ask_to_stop();

}  // namespace cogwheel::cli
