#include "cogwheel/attention/authoring/excerpt.h"

namespace cogwheel::authoring {

std::size_t next_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (text[at] & 0xc0) == 0x80) ++at;
  return at;
}

std::string excerpt(std::string_view text, std::size_t max_characters) {
  std::string line;
  std::size_t at = 0;
  for (std::size_t count = 0; at < text.size() && count < max_characters; ++count) {
    const std::size_t end = next_character(text, at);
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x20 || first == 0x7f)
      line += ' ';
    else
      line += text.substr(at, end - at);
    at = end;
  }
  return at < text.size() ? line + "…" : line;
}

}  // namespace cogwheel::authoring
