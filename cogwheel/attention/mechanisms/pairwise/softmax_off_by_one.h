// Softmax-off-by-one: softmax beside one silent key of score `sink`, so that a head may attend to nothing.
//
//   a_j = exp(s_j) / (exp(sink) + Σ_k exp(s_k))
//   Miller, "Attention Is Off By One" (2023), has sink = 0; a learnable sink per head is that of Xiao et al.,
//   "Efficient Streaming Language Models with Attention Sinks" (2024), and of OpenAI's gpt-oss (2025).
//
// Weights lie in [0, 1) and sum to less than 1.
//
// The exponent is s, and its row maximum starts at the sink: the silent key counts in the maximum, and N is rescaled
// with f and g. Otherwise a row of very negative scores would have weights of 0.4 that should be 0.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct SoftmaxOffByOne {
  static constexpr Description description{
      .name = "softmax_off_by_one",
      .title = "Softmax off by one",
      .family = "pairwise",
      .level = "operator",
      .parameters = "sink",
      .formula = "exp(s) / (exp(sink) + Σ exp(s))",
      .range = "weights in [0, 1), row sum in [0, 1)",
      .citation = "Miller, Attention Is Off By One (2023)",
  };
  static constexpr bool weights_are_exponentials = true;

  static constexpr std::array<std::string_view, 1> parameter_names{"sink"};
  static constexpr std::array<double, 1> parameter_initial{0.0};  // in a layer, where it is learned
  static constexpr std::array<double, 1> parameter_defaults{0.0};

  template <class V>
  static constexpr V energy(V s) {
    return s;
  }

  template <class V>
  static constexpr V initial_energy(std::array<V, 1> theta) {
    return theta[0];
  }

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    const V mass = lane::exp_nonpositive(s - row.shift);
    return {.weight = mass, .mass = mass};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V> row, std::array<V, 1> theta) {
    const V sink = theta[0];
    return mass + lane::exp_nonpositive(sink - row.shift);
  }
};

}  // namespace cogwheel
