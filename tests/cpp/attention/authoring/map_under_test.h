// A struct as a row map outside the catalogue: its card, without a compiler and without kernels.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cogwheel/attention/authoring/card/function_measures.h"
#include "cogwheel/attention/kernels/pairwise/evaluate_row_map.h"

namespace cogwheel::authoring {

template <class Map>
constexpr ScalarMap scalar_functions = scalar_map<Map>();

template <class Map>
std::span<const double> initial_scalars() {
  if constexpr (requires { Map::parameter_initial; })
    return Map::parameter_initial;
  else
    return {};
}

template <class Map>
struct MapUnderTest {
  Mechanism mechanism{.description = Map::description,
                      .family = PairwiseMechanism{.form = {},
                                                  .member = Map::description.name,
                                                  .has_energy = EnergyMap<Map, double>,
                                                  .takes_cosines = Map::description.score == "cosine",
                                                  .scalar = &scalar_functions<Map>},
                      .operator_name = Map::description.name,
                      .parameter_initial = initial_scalars<Map>()};
  MeasuredMap measured{mechanism, row_map_values_of<Map, float>(), row_map_values_of<Map, double>()};
};

template <class Map>
NumericsCard card_of_functions() {
  const MapUnderTest<Map> map;
  NumericsCard card{.mechanism = map.measured.name(), .facts = {}, .problems = {}};
  measure_functions(map.measured, "", card);
  return card;
}

inline std::string fact(const NumericsCard& card, std::string_view what) {
  for (const auto& [name, found] : card.facts)
    if (name == what) return found;
  return "no such fact";
}

constexpr Description described(std::string_view name) {
  return {.name = name,
          .title = name,
          .family = "pairwise",
          .level = "operator",
          .parameters = "",
          .formula = "",
          .range = "",
          .citation = "a test"};
}

}  // namespace cogwheel::authoring
