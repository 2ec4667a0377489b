#include "cogwheel/text/random_tokens.h"

#include "cogwheel/core/error.h"

namespace cogwheel::text {

std::vector<Token> NumberedTokens::encode(std::string_view, std::string_view what) const {
  throw Error(expected_got(std::string(what), "numbers", "text"));
}

std::vector<Token> random_tokens(std::int64_t count, std::int64_t first, std::int64_t end, std::mt19937_64& generator) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<Token>(first + static_cast<std::int64_t>(generator() % std::uint64_t(end - first))));
  return tokens;
}

}  // namespace cogwheel::text
