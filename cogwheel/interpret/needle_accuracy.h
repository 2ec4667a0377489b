// Whether a model finds what it is asked for, by where it stands: of sequences "key value key value … | key key …",
// each key after the bar to be answered by its value, as the task recall has them.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace cogwheel::interpret {

struct NeedleAccuracy {
  static constexpr int tenths = 10;
  // By the place of the pair that is asked for, 0 the first of its sequence and `tenths` the last, rounded.
  std::array<double, tenths + 1> right{}, asked{};

  // The share of right answers at these places together; NaN where nothing is asked.
  double accuracy(int from, int to) const;
};

// tokens, targets and answers [B, N] int64; `separator` is the bar. Left out are keys that were written twice, and
// sequences of at most half the pairs that the longest has, whose middle is near. Throws UsageError for other shapes,
// and sequences of fewer than three pairs.
NeedleAccuracy needle_accuracy(const at::Tensor& tokens, const at::Tensor& targets, const at::Tensor& answers,
                               std::int64_t separator);

}  // namespace cogwheel::interpret
