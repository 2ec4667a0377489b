#include "cogwheel/text/byte_pairs/added_tokens.h"

#include <algorithm>

namespace cogwheel::text {

AddedTokens::AddedTokens(std::span<const std::string> texts, std::span<const Token> added) {
  if (added.empty()) return;
  by_first_byte_.resize(256);
  for (const Token token : added) {
    const std::string& text = texts[static_cast<std::size_t>(token)];
    if (!text.empty()) by_first_byte_[static_cast<unsigned char>(text[0])].push_back({text, token});
  }
  for (auto& tokens : by_first_byte_)
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const Added& one, const Added& other) { return one.text.size() > other.text.size(); });
}

}  // namespace cogwheel::text
