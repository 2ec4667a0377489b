// Sizes as messages show them: "[2, 3]", and "[]" of none.
#pragma once
#include <ranges>
#include <sstream>
#include <string>

namespace cogwheel {

// Of whatever a stream takes: numbers, and sizes that are not known before a program runs.
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
