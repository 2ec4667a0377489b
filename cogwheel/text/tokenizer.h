// Text to tokens and back.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

// A token that stands for no text: no text is encoded as it, not even its name, and decoding leaves it out.
struct SpecialToken {
  std::string name;  // "<|endoftext|>"
  Token token;
};

// The tokens before and after a text; not every tokenizer has them.
struct TextEnds {
  std::optional<Token> beginning = {}, end = {};
  bool operator==(const TextEnds&) const = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string_view kind()
      const = 0;  // "character", "byte", "bpe", or one of sentence_tokenizer.h and word_piece.h
  virtual std::int64_t vocabulary() const = 0;

  // Throws Error that names the first character missing from the vocabulary: "<what>: expected …, got …".
  virtual std::vector<Token> encode(std::string_view text, std::string_view what = "text") const = 0;
  // Tokens outside the vocabulary are refused.
  virtual std::string decode(std::span<const Token> tokens) const = 0;

  // The bytes that `next` adds to a text of the tokens `before`, of which there may be none. One token after another
  // they give the bytes of `decode` of all; sentence_tokenizer.h has an exception. A token may end within a character.
  virtual std::string decode_next(std::span<const Token> before, Token next) const;

  // What a corpus needs: the token after each document, and the one before each text, where there is one.
  virtual std::optional<Token> end_of_document() const { return std::nullopt; }
  virtual std::optional<Token> beginning() const { return std::nullopt; }
  // By token. Empty where the kind has none or has its own accessors for them (word_piece.h).
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  // Writes the file that `load_tokenizer` reads.
  virtual std::string to_json() const = 0;
};

// Those that can be made of any text.
inline std::vector<std::string> tokenizer_names() { return {"character", "byte", "bpe"}; }

// A tokenizer for this text. character: one token per Unicode code point, in sorted order; the text must be UTF-8.
// byte: 256 tokens, any bytes. bpe: learned from the text, `vocabulary` tokens at most
// (byte_pairs/byte_pair_learning.h), any bytes. Throws UsageError for another kind or size, Error for invalid UTF-8
// that names `what` and the byte offset.
std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view kind, std::string_view text,
                                                std::string_view what = "text",
                                                std::int64_t vocabulary = default_byte_pair_vocabulary);

void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& path);
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace cogwheel::text
