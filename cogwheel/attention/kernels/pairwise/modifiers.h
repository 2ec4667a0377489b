// Modifiers of scores and weights besides the row map: a soft cap, biases, a decay with distance, a Gaussian window,
// dropout. All are optional.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/pairwise/dropout.h"

namespace cogwheel {

// [batch, heads, queries, keys], with strides of 0 where broadcast.
template <class T>
struct ScoresView {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;

  T* row(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    return data + batch * batch_stride + head * head_stride + query * query_stride;
  }
};

// "Heads" are those of the output: the sub-heads of a mixture share their modifiers.
template <class T>
struct Modifiers {
  // c > 0: scores s become c·tanh(s/c), before what is added to them.
  T softcap = 0;

  // Added to the scores. −∞ hides the key from the query.
  ScoresView<const T> bias = {};

  // Added to the exponent of an energy map, for Cog to |s|: f and g are multiplied by its exp. −∞ hides the key.
  ScoresView<const T> energy_bias = {};

  // [heads], ALiBi slopes: slope·|i + alibi_diagonal − j| is subtracted from the exponent of an energy map, and from
  // the score of any other.
  const double* alibi = nullptr;
  std::int64_t alibi_diagonal = 0;

  // [batch, heads, queries], local-p: weights are multiplied by exp(−(j − center)²/(2σ²)), after the map.
  const T* centers = nullptr;
  double sigma = 1;

  // Weights are dropped with this probability, the others divided by 1 − dropout, after the map.
  double dropout = 0;
  std::uint64_t seed = 0;
  dropout::Part part = {};

  bool any() const { return softcap > 0 || bias.data || energy_bias.data || alibi || centers || dropout > 0; }
};

}  // namespace cogwheel
