// The vocabulary in which row maps are written. A map is elementwise and knows neither tiles nor machines: V is float
// or double here, a SIMD vector in the CPU engines, later a device scalar or a dual number. A type that is not a
// floating-point number brings these functions as static members.
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

template <class V>
constexpr V exp(V x) {
  if constexpr (std::floating_point<V>)
    return std::exp(x);
  else
    return V::exp(x);
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

}  // namespace cogwheel::lane
