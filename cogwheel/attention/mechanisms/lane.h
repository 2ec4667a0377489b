// The vocabulary in which row maps are written. A map is elementwise, independent of tiles and machines: V is float
// or double, a SIMD vector in the CPU engines, a number of the device, or a dual number (dual.h) over any of these. A
// type that is not a floating-point number has these functions as static members.
//
// Beside these, a formula may use + − * /, comparisons, and V(number) for a constant. Derivatives are those of dual.h,
// which says what they are where a function has a kink.
#pragma once
#include <cmath>
#include <concepts>

namespace cogwheel::lane {

// A number in every lane; θ is kept in double and rounded once, here.
template <class V>
constexpr V constant(double x) {
  if constexpr (std::floating_point<V>)
    return static_cast<V>(x);
  else
    return V::constant(x);
}

// The derivative of a constant: 0. A lane that records what is computed tells it from a 0 that a formula has, since a
// product with it is no term of anything (authoring/traced_lane.h).
template <class V>
constexpr V zero_derivative() {
  if constexpr (requires { V::zero_derivative(); })
    return V::zero_derivative();
  else
    return V(0);
}

template <class V>
constexpr V exp(V x) {
  if constexpr (std::floating_point<V>)
    return std::exp(x);
  else
    return V::exp(x);
}

// exp(x) where x ≤ 0, as is an exponent minus its running maximum, with less accuracy the further below 0
// (kernels/cpu/vector.h). Unspecified above 0.
template <class V>
constexpr V exp_nonpositive(V x) {
  if constexpr (requires { V::exp_nonpositive(x); })
    return V::exp_nonpositive(x);
  else
    return exp(x);
}

// −∞ at 0, NaN below.
template <class V>
constexpr V log(V x) {
  if constexpr (std::floating_point<V>)
    return std::log(x);
  else
    return V::log(x);
}

// log(1 + x), accurate near 0.
template <class V>
constexpr V log1p(V x) {
  if constexpr (std::floating_point<V>)
    return std::log1p(x);
  else
    return V::log1p(x);
}

template <class V>
constexpr V sqrt(V x) {
  if constexpr (std::floating_point<V>)
    return std::sqrt(x);
  else
    return V::sqrt(x);
}

template <class V>
constexpr V tanh(V x) {
  if constexpr (std::floating_point<V>)
    return std::tanh(x);
  else
    return V::tanh(x);
}

// For |x| up to 39000: beyond, vectors have lost too much of x and give NaN.
template <class V>
constexpr V sin(V x) {
  if constexpr (std::floating_point<V>)
    return std::sin(x);
  else
    return V::sin(x);
}

// As sin.
template <class V>
constexpr V cos(V x) {
  if constexpr (std::floating_point<V>)
    return std::cos(x);
  else
    return V::cos(x);
}

template <class V>
constexpr V abs(V x) {
  if constexpr (std::floating_point<V>)
    return std::abs(x);
  else
    return V::abs(x);
}

// |magnitude| with the sign of `sign`.
template <class V>
constexpr V copysign(V magnitude, V sign) {
  if constexpr (std::floating_point<V>)
    return std::copysign(magnitude, sign);
  else
    return V::copysign(magnitude, sign);
}

// Condition is what V's comparisons return: bool, or a mask of lanes.
template <class V, class Condition>
constexpr V select(Condition condition, V yes, V no) {
  if constexpr (std::floating_point<V>)
    return condition ? yes : no;
  else
    return V::select(condition, yes, no);
}

// A NaN in either argument gives NaN. Of equal arguments it is the second, derivative included: the derivative of
// max(s, 0) at 0 is 0.
template <class V>
constexpr V max(V a, V b) {
  return select(a > b, a, select(a == a, b, a));
}
template <class V>
constexpr V min(V a, V b) {
  return select(a < b, a, select(a == a, b, a));
}

// −1, 0 or 1; NaN at NaN.
template <class V>
constexpr V sign(V x) {
  if constexpr (requires { V::sign(x); })
    return V::sign(x);
  else
    return select(x > V(0), V(1), select(x < V(0), V(-1), x));
}

// magnitude · sign(s) of a magnitude ≥ 0, without a multiplication: 0 where s is 0.
template <class V>
constexpr V times_sign(V magnitude, V s) {
  if constexpr (requires { V::times_sign(magnitude, s); })
    return V::times_sign(magnitude, s);
  else
    return select(s == V(0), V(0), copysign(magnitude, s));
}

// xⁿ by repeated squaring, for any integer n.
template <int n, class V>
constexpr V power(V x) {
  if constexpr (n < 0)
    return V(1) / power<-n>(x);
  else if constexpr (n == 0)
    return V(1);
  else if constexpr (n == 1)
    return x;
  else if constexpr (n % 2 == 0)
    return power<n / 2>(x * x);
  else
    return x * power<n - 1>(x);
}
template <class V>
constexpr V square(V x) {
  return x * x;
}
template <class V>
constexpr V cube(V x) {
  return x * x * x;
}

// 1 / (1 + odds · exp(−x)), where `odds` > 0 are the odds against at x = 0. The derivative of the plain formula would
// be ∞/∞ where exp(−x) overflows; this one is 0 there.
template <class V>
constexpr V sigmoid(V x, V odds) {
  if constexpr (requires { V::sigmoid(x, odds); })
    return V::sigmoid(x, odds);
  else
    return V(1) / (V(1) + odds * exp(-x));
}
template <class V>
constexpr V sigmoid(V x) {
  return sigmoid(x, V(1));
}

// log(1 + exp(x)), without overflow.
template <class V>
constexpr V softplus(V x) {
  if constexpr (requires { V::softplus(x); })
    return V::softplus(x);
  else
    return max(x, V(0)) + log1p(exp(-abs(x)));
}

}  // namespace cogwheel::lane
