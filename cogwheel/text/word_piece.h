// WordPiece: words as BERT cuts them (bert_words.h), each as the longest pieces of a vocabulary from left to right.
// Wu et al., "Google's Neural Machine Translation System" (2016), section 4.1; Devlin et al., "BERT" (2019).
//
//   unaffable  →  un ##aff ##able        pieces after the first of a word are marked by ##
//
// Equal, token for token, to `BertTokenizer` of Hugging Face's transformers; bert_words.h has the exceptions.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

// The tokens of these texts, wherever a vocabulary has them.
struct WordPieceSpecials {
  Token padding = 0;    // [PAD]
  Token unknown = 0;    // [UNK]: a word that pieces cannot make, or one of more than 100 characters
  Token first = 0;      // [CLS], before the first sentence: what a class is read from
  Token separator = 0;  // [SEP], after each sentence
  Token mask = 0;       // [MASK], in the place of a hidden token
};

class WordPieceTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view name = "word_piece";
  static constexpr std::array<std::string_view, 5> special_pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static constexpr Range<std::int64_t> vocabularies{16, 1 << 20};

  // The pieces by token. Throws Error that names `what` and a piece, counted from 1 and called a `unit`, which is
  // empty, has a space in it, is not UTF-8, or is there twice; or the special pieces that are missing.
  WordPieceTokenizer(std::vector<std::string> pieces, bool cased, std::string_view what = "vocabulary",
                     std::string_view unit = "piece");
  WordPieceTokenizer(const WordPieceTokenizer&) = delete;
  WordPieceTokenizer& operator=(const WordPieceTokenizer&) = delete;

  // A vocab.txt, one piece a line. Throws Error as above, and what read_text_lines throws.
  static std::shared_ptr<const WordPieceTokenizer> read(const std::filesystem::path& path, bool cased);
  // Of learn_word_pieces. Throws Error that names `what` where the lines have no words.
  static std::shared_ptr<const WordPieceTokenizer> learn(std::span<const std::string_view> lines,
                                                         std::int64_t vocabulary, bool cased, std::string_view what);
  // What `read` reads, here and in other programs.
  std::string vocabulary_text() const;

  std::string_view kind() const override { return name; }
  std::int64_t vocabulary() const override { return std::ssize(pieces_); }
  // Without [CLS] and [SEP]. A special piece in the text is that token. Throws Error where the text is not UTF-8.
  std::vector<Token> encode(std::string_view text, std::string_view what = "text") const override;
  // Words with spaces between, but before . , ! and ?. [PAD], [CLS] and [SEP] are left out.
  std::string decode(std::span<const Token> tokens) const override;
  std::string decode_next(std::span<const Token> before, Token next) const override;
  std::string to_json() const override;

  const std::string& piece(Token token) const;  // "##able"
  bool cased() const { return cased_; }
  const WordPieceSpecials& specials() const { return specials_; }
  bool is_special(Token token) const;
  // Whether a piece goes on with the word of the piece before it.
  bool continues(Token token) const { return continues_[static_cast<std::size_t>(token)]; }

 private:
  bool is_left_out(Token token) const;
  std::string addition(Token token, bool first) const;
  void append_word(std::string_view word, std::vector<Token>& tokens) const;

  std::vector<std::string> pieces_;
  bool cased_;
  std::vector<bool> continues_;
  std::unordered_map<std::string_view, Token> starts_, continuations_;  // these without ##
  std::size_t longest_ = 0;                                             // bytes of a piece, without ##
  WordPieceSpecials specials_;
};

// The tokenizer that a run kept. Throws Error where it is of another kind.
std::shared_ptr<const WordPieceTokenizer> load_word_piece(const std::filesystem::path& path);

}  // namespace cogwheel::text
