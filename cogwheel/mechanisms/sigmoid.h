// Sigmoid attention: every key on its own, no competition between keys.
//
//   a_j = 1 / (1 + exp(−(s_j + shift))),  shift = −log(number of visible keys) unless it is given
//   Ramapuram et al., "Theory, Analysis, and Best Practices for Sigmoid Self-Attention" (2024).
//
// Nothing is normalised: N = 1 and g = 0. Bounded at any score, so it needs no energy. Slopes: f′ = f_shift = a (1 −
// a).
#pragma once
#include <limits>

#include "cogwheel/mechanisms/contract.h"
#include "cogwheel/mechanisms/description.h"
#include "cogwheel/mechanisms/lane.h"

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
  double shift = parameter_defaults[0];
  static constexpr Sigmoid with(std::array<double, 1> theta) { return {.shift = theta[0]}; }

  template <class V>
  constexpr Terms<V> terms(V s, Row<V> row) const {
    return {.weight = gate(s, row), .mass = V(0)};
  }

  template <class V>
  constexpr Terms<V> slopes(V s, Row<V> row) const {
    const V a = gate(s, row);
    return {.weight = a * (V(1) - a), .mass = V(0)};
  }

  template <class V>
  static constexpr Normalizer<V> normalizer(V, Row<V>) {
    return {V(1), V(0)};
  }

  template <class V>
  constexpr std::array<Terms<V>, 1> parameter_slopes(V s, Row<V> row) const {
    return {slopes(s, row)};
  }

  template <class V>
  static constexpr std::array<V, 1> normalizer_parameter_slopes(V, Row<V>) {
    return {V(0)};
  }

 private:
  template <class V>
  constexpr V gate(V s, Row<V> row) const {
    const bool by_count = shift != shift;
    const V offset = lane::constant<V>(by_count ? 0.0 : shift);
    return V(1) / (V(1) + (by_count ? row.visible : V(1)) * lane::exp(-(s + offset)));
  }
};

}  // namespace cogwheel
