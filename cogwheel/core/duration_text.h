// A time as people say it.
#pragma once
#include <string>

namespace cogwheel {

// "48 s", "3 min 20 s", "2 h 5 min"; "0 s" of what is negative.
std::string duration_text(double seconds);

}  // namespace cogwheel
