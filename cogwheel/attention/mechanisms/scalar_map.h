// A row map as plain functions of numbers, independent of its type: the checks and the card of a mechanism use it.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"

namespace cogwheel {

// f, g and N of one map in float64, with their derivatives f′ and g′. `theta` holds its learnable scalars in order;
// unread by a map that has none.
struct ScalarMap {
  std::size_t parameters;
  Terms<double> (*terms)(const double* theta, double score, Row<double> row);
  Terms<double> (*derivatives)(const double* theta, double score, Row<double> row);
  double (*normalizer)(const double* theta, double mass, Row<double> row);
  double (*energy)(const double* theta, double score);  // null for maps without
  double (*initial_energy)(const double* theta);        // null for maps without a sink
};

template <class Map>
struct ScalarFunctions {
  static Differentiated<Map> at(const double* theta) {
    Differentiated<Map> map;
    if constexpr (parameter_count < Map >> 0) std::copy_n(theta, map.theta.size(), map.theta.begin());
    return map;
  }
  static Terms<double> terms(const double* theta, double s, Row<double> row) { return at(theta).terms(s, row); }
  static Terms<double> derivatives(const double* theta, double s, Row<double> row) {
    return at(theta).terms_with_derivatives(s, row).derivatives;
  }
  static double normalizer(const double* theta, double mass, Row<double> row) {
    return at(theta).normalizer(mass, row);
  }
  static double energy(const double* theta, double s) { return at(theta).energy(s); }
  static double initial_energy(const double* theta) { return at(theta).template initial_energy<double>(); }
};

template <class Map>
constexpr ScalarMap scalar_map() {
  using Functions = ScalarFunctions<Map>;
  ScalarMap map{.parameters = parameter_count<Map>,
                .terms = Functions::terms,
                .derivatives = Functions::derivatives,
                .normalizer = Functions::normalizer,
                .energy = nullptr,
                .initial_energy = nullptr};
  if constexpr (EnergyMap<Map, double>) map.energy = Functions::energy;
  if constexpr (SinkMap<Map, double>) map.initial_energy = Functions::initial_energy;
  return map;
}

}  // namespace cogwheel
