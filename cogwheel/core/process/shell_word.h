// Words of a command that a reader is to type again.
#pragma once
#include <string>

namespace cogwheel {

// In single quotes where a shell would read it as anything but itself.
std::string shell_word(const std::string& word);

}  // namespace cogwheel
