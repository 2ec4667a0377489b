// ConSmax: softmax with learned constants in place of its maximum and its sum.
//
//   a_j = exp(s_j − β) / γ
//   Liu et al., "ConSmax: Hardware-Friendly Alternative Softmax with Learnable Parameters" (2024).
//
// No key knows of another: g = 0, N = γ. Slopes: f′ = f, f_β = −f, N_γ = 1. Not an energy map, since no row total could
// undo a shift: exp overflows fp32 beyond s − β = 88, to infinity.
#pragma once
#include "cogwheel/mechanisms/contract.h"
#include "cogwheel/mechanisms/description.h"
#include "cogwheel/mechanisms/lane.h"

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
  double beta = 0, gamma = 1;
  static constexpr ConSmax with(std::array<double, 2> theta) { return {.beta = theta[0], .gamma = theta[1]}; }

  template <class V>
  constexpr Terms<V> terms(V s, Row<V>) const {
    return {.weight = lane::exp(s - lane::constant<V>(beta)), .mass = V(0)};
  }

  template <class V>
  constexpr Terms<V> slopes(V s, Row<V> row) const {
    return terms(s, row);
  }

  template <class V>
  constexpr Normalizer<V> normalizer(V, Row<V>) const {
    return {lane::constant<V>(gamma), V(0)};
  }

  template <class V>
  constexpr std::array<Terms<V>, 2> parameter_slopes(V s, Row<V> row) const {
    return {Terms<V>{.weight = -terms(s, row).weight, .mass = V(0)}, Terms<V>{.weight = V(0), .mass = V(0)}};
  }

  template <class V>
  static constexpr std::array<V, 2> normalizer_parameter_slopes(V, Row<V>) {
    return {V(0), V(1)};
  }
};

}  // namespace cogwheel
