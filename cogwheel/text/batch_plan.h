// Which pairs of sentences make the batch of a step.
#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "cogwheel/text/sentence_pairs.h"

namespace cogwheel::text {

struct BatchSize {
  std::int64_t sentences = 64;  // most pairs of a batch; 0: any number
  std::int64_t tokens = 0;      // most tokens of source and target, padding included; 0: any number
};

// Pairs of like length share a batch, so that little of it is padding. An epoch has every pair once. Pairs of the same
// two lengths change places from epoch to epoch, as batches do; both follow from the seed and the step alone, so that a
// resumed run needs no state but its step.
class BatchPlan {
 public:
  // What a row of a batch takes of its two tensors, special tokens included.
  struct Columns {
    std::int64_t source = 0, target = 0;
    auto operator<=>(const Columns&) const = default;
  };

  // Of at least one pair. Throws UsageError where both limits are 0 or one is negative.
  BatchPlan(const SentencePairs& pairs, const BatchSize& size);
  // The same for any rows of which these are the columns.
  BatchPlan(std::span<const Columns> rows, const BatchSize& size);

  std::int64_t batches() const { return std::ssize(ends_); }  // of an epoch
  // The pairs of a training step, counted from 0.
  std::vector<std::int64_t> pairs(std::uint64_t seed, std::int64_t step) const;
  // The batches without chance, for evaluation: each pair is in one of them.
  std::span<const std::int64_t> pairs_in_order(std::int64_t batch) const;

 private:
  std::int64_t begin(std::int64_t batch) const { return batch == 0 ? 0 : ends_[static_cast<std::size_t>(batch - 1)]; }

  std::vector<std::int64_t> order_;   // pairs, by length of source, then of target
  std::vector<std::int64_t> ends_;    // of batches in `order_`
  std::vector<std::int64_t> groups_;  // where the pairs of the same two lengths begin in `order_`, and its end
};

}  // namespace cogwheel::text
