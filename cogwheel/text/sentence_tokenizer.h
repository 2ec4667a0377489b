// Tokenizers whose tokens have pieces to show; those of sentences have a vocabulary that begins with SentenceTokens.
// They never refuse a text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/sentence_tokens.h"
#include "cogwheel/text/sentencepiece/sentencepiece_module.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

class SentenceTokenizer : public Tokenizer {
 public:
  // A token as pictures show it; ▁ is a space.
  virtual std::string piece(Token token) const = 0;
  // Whether a word begins with it: of tokens that are words, always.
  virtual bool begins_word(Token) const { return true; }
  virtual bool is_space(Token) const { return false; }  // and nothing else
};

enum class SentencePieceStyle {
  sentences,  // SentenceTokens come first; Unicode is normalised (NFKC), runs of spaces become one
  documents   // as Llama's: nothing is normalised, a character without a piece is bytes
};

// SentencePiece: pieces of words, over which any text in UTF-8 is cut, by a model of any kind that it has. A character
// that the training text lacked is `unknown`, or bytes where the model has them.
class SentencePieceTokenizer final : public SentenceTokenizer {
 public:
  static constexpr std::string_view name = "sentencepiece";

  // Trains a vocabulary of that size; the same lines give the same bytes. Throws Error that names `what`, and the size
  // that is possible, where there is too little text, unless fewer pieces will do, or too few pieces for its
  // characters.
  static std::shared_ptr<const SentencePieceTokenizer> train(std::span<const std::string_view> lines,
                                                             std::int64_t vocabulary, std::string_view what,
                                                             bool fewer_will_do = false,
                                                             SentencePieceStyle style = SentencePieceStyle::sentences);
  // Of a model as SentencePiece writes it, whose control pieces begin and end texts, unless `ends` are given. Throws
  // Error that names `what` where it is none, and where an end is no control piece.
  SentencePieceTokenizer(std::string model, std::string_view what, std::optional<TextEnds> ends = {});
  SentencePieceTokenizer(const SentencePieceTokenizer&) = delete;
  SentencePieceTokenizer& operator=(const SentencePieceTokenizer&) = delete;
  ~SentencePieceTokenizer() override;

  std::string_view kind() const override { return name; }
  std::int64_t vocabulary() const override;
  std::vector<Token> encode(std::string_view text, std::string_view what = "text") const override;
  std::string decode(std::span<const Token> tokens) const override;
  // A piece that is a byte gives that byte. Where bytes make no character together, `decode` has U+FFFD for each.
  std::string decode_next(std::span<const Token> before, Token next) const override;
  std::optional<Token> end_of_document() const override;
  std::optional<Token> beginning() const override;
  std::vector<SpecialToken> special_tokens() const override;
  // Whether its vocabulary begins with SentenceTokens.
  bool is_of_sentences() const {
    return specials_.padding == SentenceTokens::padding && specials_.unknown == SentenceTokens::unknown &&
           specials_.begin == SentenceTokens::begin && specials_.end == SentenceTokens::end;
  }
  // The model in base64, with its hash, and the ends where they were given.
  std::string to_json() const override;
  std::string piece(Token token) const override;
  bool begins_word(Token token) const override { return piece(token).starts_with("▁"); }
  bool is_space(Token token) const override { return piece(token) == "▁"; }
  // What SentencePiece's own tools read.
  const std::string& model() const { return model_; }
  PieceKind piece_kind(Token token) const;

 private:
  std::string model_;
  void* loaded_ = nullptr;
  SpecialPieces specials_{};
  TextEnds ends_ = {};
  bool other_ends_ = false;  // than the model has
};

// One token for each word of a list; words are what spaces separate.
class WordTokenizer final : public SentenceTokenizer {
 public:
  static constexpr std::string_view name = "words";

  explicit WordTokenizer(std::vector<std::string> words);

  std::string_view kind() const override { return name; }
  std::int64_t vocabulary() const override;
  std::vector<Token> encode(std::string_view text, std::string_view what = "text") const override;
  std::string decode(std::span<const Token> tokens) const override;
  std::string decode_next(std::span<const Token> before, Token next) const override;
  // The first token of a text, as training has it.
  std::optional<Token> beginning() const override { return SentenceTokens::begin; }
  std::string to_json() const override;
  std::string piece(Token token) const override;

 private:
  std::vector<std::string> words_, sorted_;
  std::vector<Token> token_of_sorted_;
};

// The tokenizer that a run kept. Throws Error where it is of another kind.
std::shared_ptr<const SentenceTokenizer> load_sentence_tokenizer(const std::filesystem::path& path);

}  // namespace cogwheel::text
