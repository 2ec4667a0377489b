// "a run", "an export".
#pragma once
#include <string>
#include <string_view>

namespace cogwheel {

inline std::string with_article(std::string_view noun) {
  const bool vowel = noun.find_first_of("aeiou") == 0;
  return (vowel ? "an " : "a ") + std::string(noun);
}

}  // namespace cogwheel
