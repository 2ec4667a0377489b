// The Python interpreter of the environment in which the executable was started.
#pragma once
#include <string>

namespace cogwheel {

// The interpreter that COGWHEEL_PYTHON names (the command of an installed package sets it, python/cogwheel_command.py);
// else the python3 beside the executable as it was called; else the one on PATH.
std::string environment_python();

}  // namespace cogwheel
