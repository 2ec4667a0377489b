// The Python of the environment that the executable was called in.
#pragma once
#include <string>

namespace cogwheel {

// The python3 beside the executable as it was called: an environment's bin holds a link to cogwheel, whose target lies
// elsewhere. Else the one on PATH.
std::string environment_python();

}  // namespace cogwheel
