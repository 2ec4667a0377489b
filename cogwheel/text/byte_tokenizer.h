// 256 tokens, one per byte value, for any file.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  std::int64_t vocabulary() const override { return 256; }
  std::vector<Token> encode(std::string_view text, std::string_view what) const override;
  std::string decode(std::span<const Token> tokens) const override;
  std::string to_json() const override;
};

}  // namespace cogwheel::text
