// Pairs of sentences as tokens.
#pragma once
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::text {

// Token sequences, without begin and end, of the pairs that can be learned from. Tokens of all sentences lie one after
// the other.
class SentencePairs {
 public:
  // `line`: where the pair stands in its text, from 0.
  void add(std::span<const Token> source, std::span<const Token> target, std::int64_t line);

  std::int64_t size() const { return std::ssize(lines_); }
  std::span<const Token> source(std::int64_t pair) const { return source_.of(pair); }
  std::span<const Token> target(std::int64_t pair) const { return target_.of(pair); }
  std::int64_t line(std::int64_t pair) const { return lines_[static_cast<std::size_t>(pair)]; }
  // The tokens as bytes, by which what is equal is found.
  std::string content(std::int64_t pair) const;
  std::string source_content(std::int64_t pair) const;
  std::int64_t source_tokens() const { return std::ssize(source_.tokens); }
  std::int64_t target_tokens() const { return std::ssize(target_.tokens); }

  // Pairs of the text that are not here: with an empty side; with one longer than the limit.
  std::int64_t empty = 0, overlong = 0;

 private:
  struct Side {
    std::vector<Token> tokens;
    std::vector<std::int64_t> ends;
    std::span<const Token> of(std::int64_t pair) const;
  };
  Side source_, target_;
  std::vector<std::int64_t> lines_;
};

}  // namespace cogwheel::text
