// Byte-level byte pairs, as GPT-2 and Llama 3 have them (byte_pairs/): any bytes are tokens, and come back from them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/byte_pairs/added_tokens.h"
#include "cogwheel/text/byte_pairs/byte_pair_encoding.h"
#include "cogwheel/text/byte_pairs/byte_pair_json.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

class BytePairTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view name = byte_pair_kind;

  // Throws Error that names `what` for a vocabulary that merged_tokens refuses.
  explicit BytePairTokenizer(BytePairVocabulary vocabulary, std::string_view what = "vocabulary");

  std::string_view kind() const override { return name; }
  std::int64_t vocabulary() const override { return std::ssize(learned_.tokens); }
  // The name of a special token in a text is text. Any threads may encode at once.
  std::vector<Token> encode(std::string_view text, std::string_view what = "text") const override;
  // Special tokens are left out.
  std::string decode(std::span<const Token> tokens) const override;
  std::optional<Token> end_of_document() const override { return learned_.end_of_document; }
  std::optional<Token> beginning() const override { return learned_.beginning; }
  std::vector<SpecialToken> special_tokens() const override;
  std::string to_json() const override { return byte_pair_json(learned_); }

  const BytePairVocabulary& learned() const { return learned_; }

 private:
  void encode_part(std::string_view text, std::vector<Token>& tokens, std::string_view what) const;

  BytePairVocabulary learned_;
  BytePairEncoding encoding_;
  std::vector<bool> is_special_;
  AddedTokens added_;
};

}  // namespace cogwheel::text
