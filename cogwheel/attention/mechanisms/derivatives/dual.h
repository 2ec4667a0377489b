// Dual numbers: a value with its derivatives along N directions, for forward-mode automatic differentiation. A row map
// evaluated at a dual score gives its derivatives from the same code as its values; the values keep their bits.
//
// V is any lane type of lane.h, or a dual number again: Dual<Dual<double>> carries second derivatives.
//
// At a kink the derivative is that of the branch that the value takes:
//   select(condition, a, b)   that of a or of b; the condition adds nothing, so a jump has no derivative
//   abs(x)                    sign(x), 0 at 0
//   max(a, b), min(a, b)      that of the argument taken, of b where both are equal: that of max(s, 0) at 0 is 0
//   sign(x)                   0
//   copysign(m, s)            that of |m| on the side of s; at s = ±0 the sign of the zero counts
//   sqrt(x) at 0, log(x) at 0 infinite, as it is
// A map that needs another derivative at a kink defines its own `derivatives` (contract.h), as Cog does.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <utility>

#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

// The type of a comparison of V: bool, or a mask of lanes.
template <class V>
using Condition = decltype(std::declval<V>() == std::declval<V>());

template <class V, std::size_t N = 1>
struct Dual {
  V value;
  std::array<V, N> derivative;

  Dual() = default;
  constexpr Dual(V of, std::array<V, N> along) : value(of), derivative(along) {}
  // A constant.
  constexpr explicit Dual(V x) : Dual(map_derivatives(x, [](std::size_t) { return lane::zero_derivative<V>(); })) {}
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  constexpr explicit Dual(Number x) : Dual(lane::constant<V>(static_cast<double>(x))) {}
  static constexpr Dual constant(double x) { return Dual(lane::constant<V>(x)); }

  // The variable of one direction.
  static constexpr Dual variable(V x, std::size_t direction) {
    return map_derivatives(x,
                           [direction](std::size_t i) { return i == direction ? V(1) : lane::zero_derivative<V>(); });
  }
  static constexpr Dual zero_derivative() { return Dual(lane::zero_derivative<V>()); }

  // A value and, for each direction i, derivative_of(i). Unrolled, so that derivatives stay in registers.
  template <class DerivativeOf>
  static constexpr Dual map_derivatives(V value, const DerivativeOf& derivative_of) {
    return map_derivatives(value, derivative_of, std::make_index_sequence<N>());
  }

  static constexpr Dual exp(const Dual& x) {
    const V value = lane::exp(x.value);
    return chain(x, value, value);
  }
  static constexpr Dual exp_nonpositive(const Dual& x) {
    const V value = lane::exp_nonpositive(x.value);
    return chain(x, value, value);
  }
  static constexpr Dual log(const Dual& x) { return chain(x, lane::log(x.value), V(1) / x.value); }
  static constexpr Dual log1p(const Dual& x) { return chain(x, lane::log1p(x.value), V(1) / (V(1) + x.value)); }
  static constexpr Dual sqrt(const Dual& x) {
    const V value = lane::sqrt(x.value);
    return chain(x, value, V(1) / (value + value));
  }
  static constexpr Dual tanh(const Dual& x) {
    const V value = lane::tanh(x.value);
    return chain(x, value, V(1) - value * value);
  }
  static constexpr Dual sin(const Dual& x) { return chain(x, lane::sin(x.value), lane::cos(x.value)); }
  static constexpr Dual cos(const Dual& x) { return chain(x, lane::cos(x.value), -lane::sin(x.value)); }
  static constexpr Dual abs(const Dual& x) { return chain(x, lane::abs(x.value), lane::sign(x.value)); }
  static constexpr Dual sign(const Dual& x) { return Dual(lane::sign(x.value)); }
  static constexpr Dual copysign(const Dual& magnitude, const Dual& sign) {
    return chain(magnitude, lane::copysign(magnitude.value, sign.value),
                 lane::copysign(V(1), magnitude.value) * lane::copysign(V(1), sign.value));
  }
  static constexpr Dual select(Condition<V> condition, const Dual& yes, const Dual& no) {
    return map_derivatives(lane::select(condition, yes.value, no.value),
                           [&](std::size_t i) { return lane::select(condition, yes.derivative[i], no.derivative[i]); });
  }
  static constexpr Dual sigmoid(const Dual& x, const Dual& odds) {
    const V value = lane::sigmoid(x.value, odds.value), derivative = value * (V(1) - value);
    return map_derivatives(
        value, [&](std::size_t i) { return derivative * (x.derivative[i] - odds.derivative[i] / odds.value); });
  }
  static constexpr Dual softplus(const Dual& x) { return chain(x, lane::softplus(x.value), lane::sigmoid(x.value)); }

 private:
  template <class DerivativeOf, std::size_t... i>
  static constexpr Dual map_derivatives(V value, const DerivativeOf& derivative_of, std::index_sequence<i...>) {
    return Dual(value, std::array<V, N>{derivative_of(i)...});
  }

  // f(x), with the derivative of f at x.
  static constexpr Dual chain(const Dual& x, V value, V derivative) {
    return map_derivatives(value, [&](std::size_t i) { return derivative * x.derivative[i]; });
  }
};

// Operators are defined outside the class: an instruction set's pragma (attention/kernels/cpu/isa_begin.h) does not
// apply to friends.
template <class V, std::size_t N>
constexpr Dual<V, N> operator+(const Dual<V, N>& a, const Dual<V, N>& b) {
  return Dual<V, N>::map_derivatives(a.value + b.value,
                                     [&](std::size_t i) { return a.derivative[i] + b.derivative[i]; });
}
template <class V, std::size_t N>
constexpr Dual<V, N> operator-(const Dual<V, N>& a, const Dual<V, N>& b) {
  return Dual<V, N>::map_derivatives(a.value - b.value,
                                     [&](std::size_t i) { return a.derivative[i] - b.derivative[i]; });
}
template <class V, std::size_t N>
constexpr Dual<V, N> operator-(const Dual<V, N>& a) {
  return Dual<V, N>::map_derivatives(-a.value, [&](std::size_t i) { return -a.derivative[i]; });
}
template <class V, std::size_t N>
constexpr Dual<V, N> operator*(const Dual<V, N>& a, const Dual<V, N>& b) {
  return Dual<V, N>::map_derivatives(
      a.value * b.value, [&](std::size_t i) { return a.derivative[i] * b.value + a.value * b.derivative[i]; });
}
template <class V, std::size_t N>
constexpr Dual<V, N> operator/(const Dual<V, N>& a, const Dual<V, N>& b) {
  const V quotient = a.value / b.value;
  return Dual<V, N>::map_derivatives(
      quotient, [&](std::size_t i) { return (a.derivative[i] - quotient * b.derivative[i]) / b.value; });
}
template <class V, std::size_t N>
constexpr Condition<V> operator==(const Dual<V, N>& a, const Dual<V, N>& b) {
  return a.value == b.value;
}
template <class V, std::size_t N>
constexpr Condition<V> operator<(const Dual<V, N>& a, const Dual<V, N>& b) {
  return a.value < b.value;
}
template <class V, std::size_t N>
constexpr Condition<V> operator>(const Dual<V, N>& a, const Dual<V, N>& b) {
  return a.value > b.value;
}
template <class V, std::size_t N>
constexpr Condition<V> operator<=(const Dual<V, N>& a, const Dual<V, N>& b) {
  return a.value <= b.value;
}
template <class V, std::size_t N>
constexpr Condition<V> operator>=(const Dual<V, N>& a, const Dual<V, N>& b) {
  return a.value >= b.value;
}

}  // namespace cogwheel
