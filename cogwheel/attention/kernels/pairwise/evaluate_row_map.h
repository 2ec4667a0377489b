// The loop behind row_map_values.h, for any map: derivatives by dual numbers, second ones by duals of duals.
#pragma once
#include <cstddef>
#include <limits>

#include "cogwheel/attention/kernels/pairwise/row_map_values.h"
#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"

namespace cogwheel {

// The map at one element, as numbers of type V: [channels][1, or K with derivatives].
template <class Map, class V>
class ElementOfRowMap {
  static constexpr std::size_t scalars = parameter_count<Map>;

 public:
  static constexpr std::size_t variables = 1 + scalars;

  V argument;
  Row<V> row;
  Theta<Map, V> theta;

  // Writes each derivative by put(channel, variable, value).
  template <class Put>
  void derivatives(RowMapFunction function, const Put& put) const {
    if (function == RowMapFunction::normalizer) {
      const auto at = Differentiated<Map>::normalizer_with_derivatives(argument, row, theta);
      put(0, 0, at.derivative);
      for (std::size_t p = 0; p < scalars; ++p) put(0, 1 + p, at.parameter_derivatives[p]);
      return;
    }
    const auto at = Differentiated<Map>::terms_with_derivatives(argument, row, theta);
    put(0, 0, at.derivatives.weight);
    put(1, 0, at.derivatives.mass);
    for (std::size_t p = 0; p < scalars; ++p) {
      put(0, 1 + p, at.parameter_derivatives[p].weight);
      put(1, 1 + p, at.parameter_derivatives[p].mass);
    }
  }

  template <class Put>
  void values(RowMapFunction function, const Put& put) const {
    if (function == RowMapFunction::normalizer) {
      put(0, Differentiated<Map>::normalizer_with_derivatives(argument, row, theta).value);
      return;
    }
    const auto at = Differentiated<Map>::terms_with_derivatives(argument, row, theta);
    put(0, at.terms.weight);
    put(1, at.terms.mass);
  }
};

template <class Map, class T>
void evaluate_energies(const RowMapElements<T>& elements) {
  Differentiated<Map> map;
  for (std::size_t p = 0; p < parameter_count<Map>; ++p) map.theta[p] = elements.theta[p];
  T initial(0);
  if constexpr (SinkMap<Map, T>)
    initial = map.template initial_energy<T>();
  else if constexpr (EnergyMap<Map, T>)
    initial = -std::numeric_limits<T>::infinity();
  for (std::int64_t x = 0; x < elements.count; ++x) {
    T energy(0);
    if constexpr (EnergyMap<Map, T>) energy = map.energy(elements.argument[x]);
    elements.out[x] = energy;
    elements.out[elements.channel_stride + x] = initial;
  }
}

template <class Map, class T>
void evaluate_row_map(const RowMapElements<T>& elements) {
  if (elements.function == RowMapFunction::energy) return evaluate_energies<Map>(elements);
  constexpr std::size_t variables = ElementOfRowMap<Map, T>::variables;
  using D = Dual<T, variables>;
  ElementOfRowMap<Map, T> element{};
  ElementOfRowMap<Map, D> dual{};
  for (std::size_t p = 0; p + 1 < variables; ++p) {
    element.theta[p] = static_cast<T>(elements.theta[p]);
    dual.theta[p] = D::variable(element.theta[p], 1 + p);
  }
  for (std::int64_t x = 0; x < elements.count; ++x) {
    const auto put = [&](std::size_t channel, T value) {
      elements.out[static_cast<std::int64_t>(channel) * elements.channel_stride + x] = value;
    };
    element.argument = elements.argument[x];
    element.row = {.visible = elements.visible[x * elements.visible_stride],
                   .shift = elements.shift[x * elements.shift_stride]};
    if (elements.order == 0) {
      element.values(elements.function, put);
    } else if (elements.order == 1) {
      element.derivatives(elements.function,
                          [&](std::size_t c, std::size_t i, T derivative) { put(c * variables + i, derivative); });
    } else {
      dual.argument = D::variable(element.argument, 0);
      dual.row = {.visible = D(element.row.visible), .shift = D(element.row.shift)};
      dual.derivatives(elements.function, [&](std::size_t c, std::size_t i, const D& derivative) {
        for (std::size_t j = 0; j < variables; ++j) put((c * variables + i) * variables + j, derivative.derivative[j]);
      });
    }
  }
}

template <class Map, class T>
constexpr RowMapValues<T> row_map_values_of() {
  return {.mechanism = Map::description.name,
          .variables = static_cast<int>(ElementOfRowMap<Map, T>::variables),
          .evaluate = evaluate_row_map<Map, T>};
}

}  // namespace cogwheel
