// A duration in a form that people read easily.
#pragma once
#include <string>

namespace cogwheel {

// "48 s", "3 min 20 s", "2 h 5 min"; "0 s" for a negative duration.
std::string duration_text(double seconds);

}  // namespace cogwheel
