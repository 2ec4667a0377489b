// Sigmoid attention: every key on its own, no competition between keys.
//
//   a_j = 1 / (1 + exp(−(s_j + shift))),  shift = −log(number of visible keys) unless it is given
//   Ramapuram et al., "Theory, Analysis, and Best Practices for Sigmoid Self-Attention" (2024).
//
// Nothing is normalised: N = 1 and g = 0. Bounded at any score, so it needs no exponent. `shift` is the name of its
// scalar, a bias of the score, as users pass it; it is not the row maximum of contract.h.
#pragma once
#include <limits>

#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Sigmoid {
  static constexpr Description description{
      .name = "sigmoid",
      .title = "Sigmoid",
      .family = "pairwise",
      .level = "operator",
      .parameters = "shift",
      .formula = "σ(s + shift), shift = -log n by default",
      .range = "weights in [0, 1], each on its own",
      .citation = "Ramapuram et al., Theory, Analysis, and Best Practices for Sigmoid Self-Attention (2024)",
  };

  static constexpr std::array<std::string_view, 1> parameter_names{"shift"};
  static constexpr std::array<double, 1> parameter_defaults{
      std::numeric_limits<double>::quiet_NaN()};  // −log(visible keys)

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row, std::array<V, 1> theta) {
    const auto given = theta[0] == theta[0];
    const V shift = lane::select(given, theta[0], V(0)), odds = lane::select(given, V(1), row.visible);
    return {.weight = lane::sigmoid(s + shift, odds), .mass = V(0)};
  }

  template <class V>
  static constexpr V normalizer(V, Row<V>) {
    return V(1);
  }
};

}  // namespace cogwheel
