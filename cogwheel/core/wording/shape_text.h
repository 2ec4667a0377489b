// Sizes as messages show them: "[2, 3]", and "[]" for none.
#pragma once
#include <ranges>
#include <sstream>
#include <string>

namespace cogwheel {

// For anything that a stream prints: numbers, and symbolic sizes of a compiled graph.
template <std::ranges::input_range Sizes>
std::string shape_text(const Sizes& sizes) {
  std::ostringstream text;
  const char* before = "[";
  for (const auto& size : sizes) {
    text << before << size;
    before = ", ";
  }
  if (*before == '[') text << before;
  text << ']';
  return text.str();
}

}  // namespace cogwheel
