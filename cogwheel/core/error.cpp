#include "cogwheel/core/error.h"

namespace cogwheel {

std::string expected_got(std::string_view what, std::string_view expected, std::string_view got) {
  if (got.empty()) got = "nothing";
  std::string message;
  message.reserve(what.size() + expected.size() + got.size() + 20);
  message.append(what).append(": expected ").append(expected).append(", got ").append(got);
  return message;
}

std::string one_line(std::string_view message) {
  std::string line;
  for (const char character : message.substr(0, message.find_last_not_of("\r\n ") + 1)) {
    const auto byte = static_cast<unsigned char>(character);
    line += byte == '\n' || byte == '\t' || byte == '\r' ? ' ' : byte < 0x20 || byte == 0x7f ? '?' : character;
  }
  return line;
}

}  // namespace cogwheel
