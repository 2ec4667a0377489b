#include "cogwheel/tasks/language/written_text.h"

#include <algorithm>

#include "cogwheel/core/encoding/utf8.h"

namespace cogwheel::tasks::language {
namespace {

constexpr char32_t replacement = 0xFFFD;

// Whether the bytes are the beginning of a character that is not whole yet.
bool begins_character(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
  if (first > 0xF4 || bytes.size() >= length) return false;
  // Some continuation makes it valid: the range of the second byte depends on the first, that of the others does not.
  const std::string whole(bytes);
  for (const char second : {'\x80', '\x90', '\xA0'}) {
    std::string tried = whole;
    if (tried.size() < 2) tried += second;
    tried.resize(length, '\x80');
    if (decode_utf8(tried, 0).bytes == length) return true;
  }
  return false;
}

}  // namespace

// The first `bytes` that wait, as text; the beginning of a character at the end stays, unless `all` is wanted.
std::string WrittenText::characters(std::size_t bytes, bool all) {
  std::string text;
  std::size_t at = 0;
  const std::string_view given = std::string_view(waiting_).substr(0, bytes);
  while (at < given.size()) {
    const CodePoint found = decode_utf8(given, at);
    if (found.bytes == 0) {
      if (!all && begins_character(given.substr(at))) break;
      append_utf8(text, replacement);
      ++at;
      continue;
    }
    text += given.substr(at, found.bytes);
    at += found.bytes;
  }
  waiting_.erase(0, at);
  return text;
}

// The longest end that begins a stop string.
std::size_t WrittenText::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stop_)
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > longest; --length)
      if (std::string_view(waiting_).ends_with(std::string_view(stop).substr(0, length))) {
        longest = length;
        break;
      }
  return longest;
}

std::string WrittenText::add(std::string_view bytes) {
  if (stopped_) return "";
  waiting_ += bytes;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_) end = std::min(end, waiting_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    std::string last = characters(end, true);
    waiting_.clear();
    return last;
  }
  return characters(waiting_.size() - held_back(), false);
}

std::string WrittenText::finish() { return characters(waiting_.size(), true); }

}  // namespace cogwheel::tasks::language
