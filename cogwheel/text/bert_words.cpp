#include "cogwheel/text/bert_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

bool is_white_space(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

// Unassigned code points are text: a later Unicode may have given them to letters.
bool is_left_out(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return c == 0 || c == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

// The blocks of CJK unified and compatibility ideographs that BERT names; not kana, not Hangul.
bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> blocks[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                      {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf},
                                                      {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return c >= 0x3400 && std::any_of(std::begin(blocks), std::end(blocks),
                                    [&](const auto& block) { return c >= block.first && c <= block.second; });
}

template <class Function>
void for_each_character(std::string_view text, std::string_view what, const Function& function) {
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint code_point = decode_utf8(text, offset);
    if (code_point.bytes == 0) throw Error(expected_got(what, "text in UTF-8", code_point_text(text, offset)));
    function(code_point.value);
    offset += code_point.bytes;
  }
}

// Spaces stand for all white space, and around Chinese characters.
std::string cleaned(std::string_view text, std::string_view what) {
  std::string result;
  for_each_character(text, what, [&](char32_t c) {
    if (is_white_space(c)) {
      result += ' ';
    } else if (is_chinese(c)) {
      result += ' ';
      append_utf8(result, c);
      result += ' ';
    } else if (!is_left_out(c)) {
      append_utf8(result, c);
    }
  });
  return result;
}

// Of valid UTF-8.
std::string without_accents_and_case(const std::string& text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const auto count = utf8proc_decompose(bytes, size, nullptr, 0, UTF8PROC_DECOMPOSE);
  if (count < 0) throw Error(expected_got("text", "one that can be decomposed", utf8proc_errmsg(count)));
  std::vector<utf8proc_int32_t> characters(static_cast<std::size_t>(count));
  utf8proc_decompose(bytes, size, characters.data(), count, UTF8PROC_DECOMPOSE);
  std::string result;
  for (const utf8proc_int32_t c : characters)
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) append_utf8(result, static_cast<char32_t>(utf8proc_tolower(c)));
  return result;
}

}  // namespace

std::vector<std::string> bert_words(std::string_view text, bool cased, std::string_view what) {
  std::string line = cleaned(text, what);
  if (!cased) line = without_accents_and_case(line);
  std::vector<std::string> words;
  bool open = false;  // whether the last word may go on
  for_each_character(line, what, [&](char32_t c) {
    const bool space = is_white_space(c), alone = is_punctuation(c);
    if (!space) {
      if (!open || alone) words.emplace_back();
      append_utf8(words.back(), c);
    }
    open = !space && !alone;
  });
  return words;
}

}  // namespace cogwheel::text
