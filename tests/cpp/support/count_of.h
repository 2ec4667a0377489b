// How often one text stands in another.
#pragma once
#include <cstddef>
#include <string>

namespace cogwheel {

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace cogwheel
