#include "cogwheel/text/sentence_pairs.h"

#include <string_view>

namespace cogwheel::text {

void SentencePairs::add(std::span<const Token> source, std::span<const Token> target, std::int64_t line) {
  for (const auto& [side, tokens] : {std::pair(&source_, source), std::pair(&target_, target)}) {
    side->tokens.insert(side->tokens.end(), tokens.begin(), tokens.end());
    side->ends.push_back(std::ssize(side->tokens));
  }
  lines_.push_back(line);
}

std::span<const Token> SentencePairs::Side::of(std::int64_t pair) const {
  const auto place = static_cast<std::size_t>(pair);
  const std::int64_t begin = pair == 0 ? 0 : ends[place - 1];
  return std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(ends[place] - begin));
}

std::string SentencePairs::source_content(std::int64_t pair) const {
  const std::span<const Token> tokens = source(pair);
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

std::string SentencePairs::content(std::int64_t pair) const {
  const std::span<const Token> tokens = target(pair);
  return std::to_string(source(pair).size()) + ":" + source_content(pair) +
         std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
}

}  // namespace cogwheel::text
