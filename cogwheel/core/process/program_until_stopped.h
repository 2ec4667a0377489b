// Runs another program that does not outlive this one.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/core/process/process.h"

namespace cogwheel {

// Runs a program and waits for it. SIGINT and SIGTERM, which would end this process at once, end the program meanwhile,
// and then Interrupted with this message is thrown. The program itself ignores SIGINT, so that Ctrl-C, which a terminal
// sends to both, is answered here alone.
Finished run_until_stopped(const std::vector<std::string>& command, const Process::Options& options,
                           const std::string& message);

}  // namespace cogwheel
