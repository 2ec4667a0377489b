// Text to tokens: words, and in each, again and again, the neighbours whose merge was learned first become one.
// Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

// A flat table with open addressing, of at most half of its slots, that is only read once it is filled.
class MergeTable {
 public:
  static constexpr std::uint32_t none = 0xffffffff;
  explicit MergeTable(std::size_t merges);
  void set(Token left, Token right, std::uint32_t merge);
  // The number of the merge of these neighbours, or `none`.
  std::uint32_t find(Token left, Token right) const {
    const std::uint64_t pair = pair_of(left, right);
    for (std::size_t slot = slot_of(pair);; slot = (slot + 1) & mask_)
      if (slots_[slot].pair == pair || slots_[slot].merge == none) return slots_[slot].merge;
  }

 private:
  struct Slot {
    std::uint64_t pair;
    std::uint32_t merge;
  };
  static std::uint64_t pair_of(Token left, Token right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t pair) const {
    const std::uint64_t mixed = (pair ^ pair >> 32) * 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(mixed >> 24) & mask_;
  }
  std::size_t mask_;
  std::vector<Slot> slots_;
};

// Adds what becomes of the tokens where, again and again, the neighbours whose merge comes first become one, `merged`
// of that merge; among equals the first in the text.
void merge_in_order(std::span<const Token> given, const MergeTable& merges, std::span<const Token> merged,
                    std::vector<Token>& tokens);

// Words of at most 15 bytes as two numbers, which tell them apart without a look at the bytes.
struct ShortWord {
  static constexpr std::size_t longest = 15;
  std::uint64_t low = 0, high = 0;  // the bytes, and their number above them
  bool operator==(const ShortWord&) const = default;
  std::uint64_t hash() const {
    const std::uint64_t mixed = low * 0x9e3779b97f4a7c15U ^ high * 0xc2b2ae3d27d4eb4fU;
    return (mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15U;
  }
};

class BytePairEncoding {
 public:
  // Throws Error that names `what`, as merged_tokens does.
  BytePairEncoding(const BytePairVocabulary& vocabulary, std::string_view what);

  // Adds the tokens of a text. Any threads may do so at once: words of several tokens are remembered by each for
  // itself. Throws Error that names `what` for a word of 4 GiB.
  void encode(std::string_view text, std::vector<Token>& tokens, std::string_view what) const;

 private:
  struct WholeWord {
    ShortWord word;
    Token token;
  };

  template <WordPattern pattern>
  void encode_words(std::string_view text, std::vector<Token>& tokens) const;
  void merge(std::string_view word, std::vector<Token>& tokens) const;
  void merge_short(std::string_view word, std::vector<Token>& tokens) const;
  void merge_long(std::string_view word, std::vector<Token>& tokens) const;
  Token whole_word(const ShortWord& word) const;
  void add_whole_words(const BytePairVocabulary& vocabulary);
  void set_whole_word(const ShortWord& word, Token token);

  WordPattern pattern_;
  std::uint32_t number_;  // another for each object
  std::array<Token, 256> bytes_;
  std::vector<Token> merged_;                   // by merge
  std::vector<std::uint32_t> merges_of_bytes_;  // [256 · 256]
  MergeTable merges_;
  std::vector<WholeWord> whole_words_;  // short words that are one token; open addressing
  std::uint64_t whole_words_mask_ = 0;
  std::vector<std::pair<std::string, Token>> long_words_ = {};  // sorted; only where the vocabulary takes whole words
};

}  // namespace cogwheel::text
