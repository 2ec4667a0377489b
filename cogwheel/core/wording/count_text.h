// A count in a form that people read easily.
#pragma once
#include <string>

namespace cogwheel {

// "950", "12.3 k", "1.5 M".
std::string count_text(double count);

}  // namespace cogwheel
