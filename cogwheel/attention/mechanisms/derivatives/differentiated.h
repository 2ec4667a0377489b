// A row map as one head runs it: with that head's scalars θ, and with its derivatives, by dual numbers over the map's
// own code. Engines, operators and tests call maps through this class only.
#pragma once
#include <array>
#include <cstddef>

#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/derivatives/dual.h"

namespace cogwheel {

// f and g with f′, g′, and f_θ, g_θ for each of P scalars.
template <class V, std::size_t P>
struct TermsWithDerivatives {
  Terms<V> terms, derivatives;
  std::array<Terms<V>, P> parameter_derivatives;
};

// N with dN/dG, and N_θ for each of P scalars.
template <class V, std::size_t P>
struct NormalizerWithDerivatives {
  V value, derivative;
  std::array<V, P> parameter_derivatives;
};

template <class Map>
struct Differentiated {
  static constexpr std::size_t parameters = parameter_count<Map>;

  std::array<double, parameters> theta{};

  template <class V>
  constexpr V energy(V s) const {
    return energy(s, constant_theta<V>());
  }

  template <class V>
  constexpr V initial_energy() const {
    return initial_energy(constant_theta<V>());
  }

  template <class V>
  constexpr Terms<V> terms(V s, Row<V> row) const {
    return terms(s, row, constant_theta<V>());
  }

  template <class V>
  constexpr TermsWithDerivatives<V, parameters> terms_with_derivatives(V s, Row<V> row) const {
    return terms_with_derivatives(s, row, constant_theta<V>());
  }

  template <class V>
  constexpr V normalizer(V mass, Row<V> row) const {
    return normalizer(mass, row, constant_theta<V>());
  }

  template <class V>
  constexpr NormalizerWithDerivatives<V, parameters> normalizer_with_derivatives(V mass, Row<V> row) const {
    return normalizer_with_derivatives(mass, row, constant_theta<V>());
  }

  // The same at scalars that are lanes themselves: dual numbers, for second derivatives, or variables that are
  // recorded.
  template <class V>
  static constexpr V energy(V s, const Theta<Map, V>& theta) {
    if constexpr (requires { Map{}.energy(s, theta); })
      return Map{}.energy(s, theta);
    else
      return Map{}.energy(s);
  }

  template <class V>
  static constexpr V initial_energy(const Theta<Map, V>& theta) {
    return Map{}.initial_energy(theta);
  }

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row, const Theta<Map, V>& theta) {
    if constexpr (requires { Map{}.terms(s, row, theta); })
      return Map{}.terms(s, row, theta);
    else
      return Map{}.terms(s, row);
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V> row, const Theta<Map, V>& theta) {
    if constexpr (requires { Map{}.normalizer(mass, row, theta); })
      return Map{}.normalizer(mass, row, theta);
    else
      return Map{}.normalizer(mass, row);
  }

  template <class V>
  static constexpr TermsWithDerivatives<V, parameters> terms_with_derivatives(V s, Row<V> row,
                                                                              const Theta<Map, V>& theta) {
    if constexpr (!MapWithDerivatives<Map, V>) {
      using D = Dual<V, 1 + parameters>;
      const Terms<D> at = terms(D::variable(s, 0), constant_row<D>(row), variable_theta<D>(theta, 1));
      return {{at.weight.value, at.mass.value}, derivatives_along<V>(at, 0), parameter_derivatives_along<V>(at, 1)};
    } else if constexpr (parameters == 0) {
      return {terms(s, row, theta), derivatives_of(s, row, theta), {}};
    } else {
      using D = Dual<V, parameters>;
      const Terms<D> at = terms(D(s), constant_row<D>(row), variable_theta<D>(theta, 0));
      return {{at.weight.value, at.mass.value}, derivatives_of(s, row, theta), parameter_derivatives_along<V>(at, 0)};
    }
  }

  template <class V>
  static constexpr NormalizerWithDerivatives<V, parameters> normalizer_with_derivatives(V mass, Row<V> row,
                                                                                        const Theta<Map, V>& theta) {
    using D = Dual<V, 1 + parameters>;
    const D at = normalizer(D::variable(mass, 0), constant_row<D>(row), variable_theta<D>(theta, 1));
    NormalizerWithDerivatives<V, parameters> result{at.value, at.derivative[0], {}};
    if constexpr (parameters > 0)
      for (std::size_t p = 0; p < parameters; ++p) result.parameter_derivatives[p] = at.derivative[1 + p];
    return result;
  }

 private:
  template <class V>
  constexpr Theta<Map, V> constant_theta() const {
    Theta<Map, V> constants{};
    if constexpr (parameters > 0)
      for (std::size_t p = 0; p < parameters; ++p) constants[p] = lane::constant<V>(theta[p]);
    return constants;
  }

  // θ as the variables of consecutive directions from `first`.
  template <class D, class V>
  static constexpr Theta<Map, D> variable_theta(const std::array<V, parameters>& theta, std::size_t first) {
    Theta<Map, D> variables{};
    if constexpr (parameters > 0)
      for (std::size_t p = 0; p < parameters; ++p) variables[p] = D::variable(theta[p], first + p);
    return variables;
  }

  template <class D, class V>
  static constexpr Row<D> constant_row(const Row<V>& row) {
    return {.visible = D(row.visible), .shift = D(row.shift)};
  }

  template <class V, class D>
  static constexpr Terms<V> derivatives_along(const Terms<D>& at, std::size_t direction) {
    return {at.weight.derivative[direction], at.mass.derivative[direction]};
  }

  template <class V, class D>
  static constexpr std::array<Terms<V>, parameters> parameter_derivatives_along(const Terms<D>& at, std::size_t first) {
    std::array<Terms<V>, parameters> derivatives{};
    if constexpr (parameters > 0)
      for (std::size_t p = 0; p < parameters; ++p) derivatives[p] = derivatives_along<V>(at, first + p);
    return derivatives;
  }

  template <class V>
  static constexpr Terms<V> derivatives_of(V s, Row<V> row, const Theta<Map, V>& theta) {
    if constexpr (requires { Map{}.derivatives(s, row, theta); })
      return Map{}.derivatives(s, row, theta);
    else
      return Map{}.derivatives(s, row);
  }
};

}  // namespace cogwheel
