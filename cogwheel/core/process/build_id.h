// Which build of a program this process runs.
#pragma once
#include <string>

namespace cogwheel {

// The identifier that the linker gave the executable, in hexadecimal digits: that of the same sources, built alike, is
// the same. Empty where there is none.
std::string build_id();

}  // namespace cogwheel
