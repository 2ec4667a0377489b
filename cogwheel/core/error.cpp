#include "cogwheel/core/error.h"

namespace cogwheel {

std::string expected_got(std::string_view what, std::string_view expected, std::string_view got) {
  std::string message;
  message.reserve(what.size() + expected.size() + got.size() + 20);
  message.append(what).append(": expected ").append(expected).append(", got ").append(got);
  return message;
}

}  // namespace cogwheel
