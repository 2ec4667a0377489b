#include "cogwheel/text/byte_tokenizer.h"

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"

namespace cogwheel::text {

std::vector<Token> ByteTokenizer::encode(std::string_view text, std::string_view) const {
  const auto* first = reinterpret_cast<const unsigned char*>(text.data());
  return {first, first + text.size()};
}

std::string ByteTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) {
    if (token < 0 || token > 255) throw Error(expected_got("token", "below 256", std::to_string(token)));
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::string ByteTokenizer::to_json() const { return nlohmann::json{{"kind", kind()}}.dump(2) + "\n"; }

}  // namespace cogwheel::text
