#include "cogwheel/text/byte_pairs/composed_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

// Characters that change their neighbours in newer versions of Unicode alone, as libutf8proc 2.8 knows them:
// `tokenizers` 0.23.3 composes by Unicode 9.0, where nothing goes across them.
constexpr struct {
  char32_t first, last;
} newer_characters[] = {
    {0x07fd, 0x07fd},   {0x0898, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},   {0x0c3c, 0x0c3c},
    {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}};

bool is_newer(char32_t character) {
  const auto* const range = std::lower_bound(std::begin(newer_characters), std::end(newer_characters), character,
                                             [](const auto& each, char32_t wanted) { return each.last < wanted; });
  return range != std::end(newer_characters) && range->first <= character;
}

// Of a stretch without them.
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
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint character = decode_utf8(text, at);
    const std::size_t end = at + std::max<std::size_t>(1, character.bytes);
    if (character.bytes == 0 || is_newer(character.value)) {
      add_composed(text.substr(begin, at - begin), result);
      result += text.substr(at, end - at);
      begin = end;
    }
    at = end;
  }
  add_composed(text.substr(begin), result);
  return result;
}

}  // namespace cogwheel::text
