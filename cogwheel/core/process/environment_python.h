// The Python interpreter of the environment in which the executable was started.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

// The interpreter that COGWHEEL_PYTHON names (the command of an installed package sets it, python/cogwheel_command.py);
// else the python3 beside the executable as it was called; else the one on PATH.
std::string environment_python();

// The words that start it with `code`. Modules are those of the user's environment (a virtual one, PYTHONPATH, the
// packages of the user), never files of the working folder, where Python looks first: what lies there may be anyone's.
// So these are not the words `-I`, which would hide the user's own packages too.
std::vector<std::string> python_running(std::string_view code);

}  // namespace cogwheel
