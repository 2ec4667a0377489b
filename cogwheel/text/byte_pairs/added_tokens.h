// Tokens that are looked for in a text before it is cut: at each place the longest.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::text {

class AddedTokens {
 public:
  // `texts` of all tokens, of which `added` are looked for.
  AddedTokens(std::span<const std::string> texts, std::span<const Token> added);

  // Calls `part` with each stretch between them, in order, with its offset; it may be empty. Adds the tokens
  // themselves.
  template <class Part>
  void split(std::string_view text, std::vector<Token>& tokens, const Part& part) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; !by_first_byte_.empty() && at < text.size(); ++at)
      for (const auto& [added, token] : by_first_byte_[static_cast<unsigned char>(text[at])]) {
        if (!text.substr(at).starts_with(added)) continue;
        part(text.substr(begin, at - begin), begin);
        tokens.push_back(token);
        begin = at + added.size();
        at = begin - 1;
        break;
      }
    part(text.substr(begin), begin);
  }

 private:
  struct Added {
    std::string text;
    Token token;
  };
  std::vector<std::vector<Added>> by_first_byte_ = {};  // the longest first; empty where there are none
};

}  // namespace cogwheel::text
