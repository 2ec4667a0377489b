// Row maps that stress what the first catalogue entries leave unused: a learnable scalar, a sink that takes part in the
// shift, a map without mass or energy, a row constant.
#pragma once
#include <array>
#include <string_view>

#include "cogwheel/mechanisms/contract.h"
#include "cogwheel/mechanisms/lane.h"

namespace cogwheel {

// exp(s) / (exp(sink) + Σ exp(s))
struct SinkSoftmax {
  static constexpr std::array<std::string_view, 1> parameter_names{"sink"};
  double sink = 0;
  static SinkSoftmax with(std::array<double, 1> theta) { return {theta[0]}; }

  template <class V>
  static constexpr V energy(V s) {
    return s;
  }
  template <class V>
  constexpr V initial_energy() const {
    return constant<V>();
  }
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    const V e = lane::exp(s - row.shift);
    return {.weight = e, .mass = e};
  }
  template <class V>
  static constexpr Terms<V> slopes(V s, Row<V> row) {
    return terms(s, row);
  }
  template <class V>
  constexpr Normalizer<V> normalizer(V mass, Row<V> row) const {
    return {mass + lane::exp(constant<V>() - row.shift), V(1)};
  }
  template <class V>
  static constexpr std::array<Terms<V>, 1> parameter_slopes(V, Row<V>) {
    return {Terms<V>{.weight = V(0), .mass = V(0)}};
  }
  template <class V>
  constexpr std::array<V, 1> normalizer_parameter_slopes(V, Row<V> row) const {
    return {lane::exp(constant<V>() - row.shift)};
  }

 private:
  template <class V>
  constexpr V constant() const {
    return V(static_cast<float>(sink));
  }
};

// σ(s + shift) / 1
struct ShiftedSigmoid {
  static constexpr std::array<std::string_view, 1> parameter_names{"shift"};
  double shift = 0;
  static ShiftedSigmoid with(std::array<double, 1> theta) { return {theta[0]}; }

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
  // The number of visible keys enters as a row constant: σ(s + shift − log visible).
  template <class V>
  constexpr V gate(V s, Row<V> row) const {
    return V(1) / (V(1) + row.visible * lane::exp(-(s + V(static_cast<float>(shift)))));
  }
};

}  // namespace cogwheel
