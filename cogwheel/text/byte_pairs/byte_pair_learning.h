// A byte-pair vocabulary from texts.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cogwheel/core/parallel.h"
#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

// How often each word occurs in documents. Memory grows with the words that differ, not with the text.
class ByteWordCounts {
 public:
  explicit ByteWordCounts(WordPattern words = WordPattern::gpt2) : words_(words) {}

  // Adds documents; the executor's workers count side by side. Sums do not depend on who counts what.
  void add(std::span<const std::string_view> documents, const Executor& executor);

  WordPattern words() const { return words_; }
  // By bytes, each with its count.
  std::vector<std::pair<std::string, std::int64_t>> sorted() const;

 private:
  using Counts = std::unordered_map<std::string, std::int64_t>;
  WordPattern words_;
  std::vector<Counts> by_worker_;
};

// The 256 bytes, then what merges made of them, then <|endoftext|>: `vocabulary` tokens, or fewer where no two
// neighbours occur together twice. Again and again the two neighbours that occur most often in the words become one;
// among equals, those of the smaller left token, then of the smaller right one. The same words give the same
// vocabulary. Throws UsageError where the size is out of range, Error that names `what` where there are no words.
BytePairVocabulary learn_byte_pairs(const ByteWordCounts& counts, std::int64_t vocabulary, std::string_view what);

}  // namespace cogwheel::text
