// ConSmax: softmax with learned constants in place of its maximum and its sum.
//
//   a_j = exp(s_j − β) / γ
//   Liu et al., "ConSmax: Hardware-Friendly Alternative Softmax with Learnable Parameters" (2024).
//
// Keys do not compete: g = 0, N = γ. Not an energy map, since no row total could cancel a row maximum: exp overflows
// fp32 to infinity beyond s − β = 88.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct ConSmax {
  static constexpr Description description{
      .name = "consmax",
      .title = "ConSmax",
      .family = "pairwise",
      .level = "operator",
      .parameters = "beta, gamma",
      .formula = "exp(s - β) / γ",
      .range = "weights at least 0, each on its own",
      .citation = "Liu et al., ConSmax: Hardware-Friendly Alternative Softmax with Learnable Parameters (2024)",
  };

  static constexpr std::array<std::string_view, 2> parameter_names{"beta", "gamma"};
  // In a layer, where they are learned: 64 scores of 0 sum to 1.
  static constexpr std::array<double, 2> parameter_initial{0.0, 64.0};

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>, std::array<V, 2> theta) {
    const V beta = theta[0];
    return {.weight = lane::exp(s - beta), .mass = V(0)};
  }

  template <class V>
  static constexpr V normalizer(V, Row<V>, std::array<V, 2> theta) {
    const V gamma = theta[1];
    return gamma;
  }
};

}  // namespace cogwheel
