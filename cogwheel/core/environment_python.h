// The Python of the environment that the executable was called in.
#pragma once
#include <string>

namespace cogwheel {

// The one that COGWHEEL_PYTHON names, as an installed package's command does (python/cogwheel_command.py); else the
// python3 beside the executable as it was called; else the one on PATH.
std::string environment_python();

}  // namespace cogwheel
