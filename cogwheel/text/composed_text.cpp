#include "cogwheel/text/composed_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

void add_composed(std::string_view text, std::string& result) {
  // Below U+0300 nothing combines, and every character is composed.
  if (std::none_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) >= 0xcc; })) {
    result += text;
    return;
  }
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const auto decompose = [&](std::vector<utf8proc_int32_t>& characters) {
    const auto count = utf8proc_decompose(bytes, size, characters.data(),
                                          static_cast<utf8proc_ssize_t>(characters.size()), UTF8PROC_DECOMPOSE);
    if (count < 0) throw Error(expected_got("text", "one that can be composed", utf8proc_errmsg(count)));
    return count;
  };
  std::vector<utf8proc_int32_t> characters;
  characters.resize(static_cast<std::size_t>(decompose(characters)));
  decompose(characters);
  const auto count = utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                              static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (count < 0) throw Error(expected_got("text", "one that can be composed", utf8proc_errmsg(count)));
  characters.resize(static_cast<std::size_t>(count));
  for (const utf8proc_int32_t character : characters) append_utf8(result, static_cast<char32_t>(character));
}

}  // namespace

std::string composed_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bad = std::min(find_non_text(text), text.size());
    add_composed(text.substr(0, bad), result);
    if (bad < text.size()) result += text[bad];
    text.remove_prefix(std::min(bad + 1, text.size()));
  }
  return result;
}

}  // namespace cogwheel::text
