#include "cogwheel/core/error.h"

#include <algorithm>

namespace cogwheel {
namespace {

// Replaces a character that would break the line or disturb a terminal.
char shown(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return byte == '\n' || byte == '\t' || byte == '\r' ? ' ' : byte < 0x20 || byte == 0x7f ? '?' : character;
}

}  // namespace

std::string expected_got(std::string_view what, std::string_view expected, std::string_view got) {
  if (got.empty()) got = "nothing";
  std::string message;
  message.reserve(what.size() + expected.size() + got.size() + 20);
  message.append(what).append(": expected ").append(expected).append(", got ").append(got);
  std::transform(message.begin(), message.end(), message.begin(), shown);
  return message;
}

std::string one_line(std::string_view message) {
  std::string line(message.substr(0, message.find_last_not_of("\r\n ") + 1));
  std::transform(line.begin(), line.end(), line.begin(), shown);
  return line;
}

}  // namespace cogwheel
