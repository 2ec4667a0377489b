// Byte-pair encoding over characters, as Hugging Face's `tokenizers` has SentencePiece's vocabularies of pairs: a space
// is ▁, words are not cut, and a character that is no token is the tokens of its bytes.
#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cogwheel/text/byte_pairs/added_tokens.h"
#include "cogwheel/text/byte_pairs/byte_pair_encoding.h"
#include "cogwheel/text/piece_pairs/piece_pair_vocabulary.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::text {

class PiecePairTokenizer final : public SentenceTokenizer {
 public:
  static constexpr std::string_view name = "piece_pairs";

  // Throws Error that names `what` where a token of a merge, or what it makes, is none, or a byte has no token.
  explicit PiecePairTokenizer(PiecePairVocabulary vocabulary, std::string_view what = "vocabulary");

  PiecePairTokenizer(const PiecePairTokenizer&) = delete;
  PiecePairTokenizer& operator=(const PiecePairTokenizer&) = delete;

  std::string_view kind() const override { return name; }
  std::int64_t vocabulary() const override { return std::ssize(learned_.tokens); }
  // Bytes that are no characters become the tokens of bytes, or what is unknown.
  std::vector<Token> encode(std::string_view text, std::string_view what = "text") const override;
  // Special tokens are left out. A byte that makes no character with its neighbours is as it is.
  std::string decode(std::span<const Token> tokens) const override;
  std::string decode_next(std::span<const Token> before, Token next) const override;
  std::optional<Token> end_of_document() const override { return learned_.end_of_document; }
  std::optional<Token> beginning() const override { return learned_.beginning; }
  std::vector<SpecialToken> special_tokens() const override;
  std::string piece(Token token) const override;
  std::string to_json() const override;

  const PiecePairVocabulary& learned() const { return learned_; }

 private:
  static std::span<const Token> expect_tokens(const PiecePairVocabulary& vocabulary, std::string_view what);
  void encode_part(std::string_view text, bool first, std::vector<Token>& tokens) const;
  void encode_word(std::string_view word, std::vector<Token>& tokens) const;
  std::string text_of(Token token) const;

  PiecePairVocabulary learned_;
  std::unordered_map<std::string_view, Token> by_text_ = {};
  std::vector<bool> is_special_ = {};
  std::vector<std::optional<char>> byte_of_ = {};
  std::array<Token, 256> bytes_ = {};
  MergeTable merges_;
  std::vector<Token> merged_ = {};
  AddedTokens added_;
  bool cuts_at_spaces_ = false;  // no token has a ▁ after another character, so that none lies across such a place
};

// What `to_json` wrote.
PiecePairVocabulary piece_pair_vocabulary_of(const nlohmann::json& json, std::string_view what);

}  // namespace cogwheel::text
