// Which words of a sentence and its translation belong together: as annotated, and as attention weights say.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cogwheel::tasks::translation {

struct WordLink {
  std::int64_t source = 0, target = 0;  // words, from 0
  // Not sure: possible, such as an article to the noun that its translation is a part of.
  bool sure = true;
  bool operator==(const WordLink&) const = default;
};

// The attention of a translation, a row for each target word and a column for each source word. More of either, such as
// those of the end of a sentence, are left out of account.
struct AlignmentWeights {
  std::span<const float> weights;  // row by row
  std::int64_t columns = 0;        // of a row
  std::int64_t targets = 0, sources = 0;

  float at(std::int64_t target, std::int64_t source) const {
    return weights[static_cast<std::size_t>(target * columns + source)];
  }
};

// Links a target word to the source word with the weight of largest magnitude; to none where a column that is left out
// has a larger one, or all weights are 0 or not numbers.
std::vector<WordLink> links_of(const AlignmentWeights& weights);

// The links between words of links between their pieces: two words are linked where any two of their pieces are. The
// word of each piece, from 0. By source, then target, each once.
std::vector<WordLink> links_of_words(std::span<const WordLink> links, std::span<const std::int64_t> source_words,
                                     std::span<const std::int64_t> target_words);

// "0-0 1-2": source-target, from 0, Pharaoh's format, as aligners write them.
std::string pharaoh_text(std::span<const WordLink> links);

// The alignment error rate of links A against sure links S and possible ones P, which include S:
// 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), of all sentences together. Och and Ney, "A Systematic Comparison of Various
// Statistical Alignment Models" (2003).
class AlignmentError {
 public:
  void add(std::span<const WordLink> links, std::span<const WordLink> gold);
  // 0 where there was nothing to link.
  double rate() const;

 private:
  std::int64_t right_ = 0, all_ = 0;  // |A ∩ S| + |A ∩ P|, |A| + |S|
};

// The share of pairs of linked target words whose source words stand in the opposite order: 0 for a translation word by
// word, 1 for one in reverse.
double reordering(std::span<const WordLink> links);

// The indices of sentences, those with most reordering first; equal ones in their order.
std::vector<std::int64_t> least_monotonic_first(std::span<const double> reorderings);

}  // namespace cogwheel::tasks::translation
