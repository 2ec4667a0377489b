// What a row map computes, recorded from its header: for devices that run neither the header nor what a compiler makes
// of it, but can do each of its steps.
#pragma once
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "cogwheel/attention/authoring/trace.h"
#include "cogwheel/attention/authoring/traced_lane.h"
#include "cogwheel/attention/kernels/pairwise/evaluate_row_map.h"

namespace cogwheel::authoring {

// The variables of a trace: the function's argument, what a map may read of a row, and its scalars.
inline constexpr const char *argument_variable = "argument", *shift_variable = "shift", *visible_variable = "visible";
inline constexpr std::array<const char*, 8> theta_variables{"theta0", "theta1", "theta2", "theta3",
                                                            "theta4", "theta5", "theta6", "theta7"};

// A function of a row map, or all its derivatives of one order, in the order of `RowMapElements::out`. Empty for a map
// of more scalars than there are variables.
using RecordRowMap = std::vector<ExpressionPointer> (*)(RowMapFunction function, int order);

// The trace of a row map of the catalogue, made at the first call. Null where it has more than `max_steps`, or the map
// more scalars than can be named: what is made of a trace would then be slower than the map itself. Any thread may
// call. Throws UsageError: "no trace of …".
const Trace* row_map_trace(std::string_view mechanism, RowMapFunction function, int order);
inline constexpr std::size_t max_steps = 1000;

// The same as expressions, for whoever puts several functions together. Throws as row_map_trace does.
std::vector<ExpressionPointer> recorded_row_map(std::string_view mechanism, RowMapFunction function, int order);

// Adds a user's row map; if the name has a record already, that stays.
void add_row_map_trace(std::string_view mechanism, RecordRowMap record);

template <class Map>
std::vector<ExpressionPointer> record_row_map(RowMapFunction function, int order) {
  constexpr std::size_t scalars = parameter_count<Map>, variables = 1 + scalars;
  if constexpr (scalars > theta_variables.size()) return {};
  const Traced argument = Traced::variable(argument_variable);
  const Row<Traced> row{.visible = Traced::variable(visible_variable), .shift = Traced::variable(shift_variable)};
  Theta<Map, Traced> theta{};
  for (std::size_t p = 0; p < scalars; ++p) theta[p] = Traced::variable(theta_variables[p]);
  if (function == RowMapFunction::energy) {
    Traced energy(0), initial(0);
    if constexpr (EnergyMap<Map, Traced>) {
      energy = Differentiated<Map>::energy(argument, theta);
      initial = Traced(-std::numeric_limits<double>::infinity());
    }
    if constexpr (SinkMap<Map, Traced>) initial = Differentiated<Map>::initial_energy(theta);
    return {energy.expression(), initial.expression()};
  }
  std::vector<ExpressionPointer> recorded;
  const ElementOfRowMap<Map, Traced> element{argument, row, theta};
  if (order == 0) {
    element.values(function, [&](std::size_t, const Traced& value) { recorded.push_back(value.expression()); });
    return recorded;
  }
  std::vector<std::array<Traced, variables>> derivatives(static_cast<std::size_t>(channels_of(function)));
  if (order == 1) {
    element.derivatives(function, [&](std::size_t c, std::size_t i, const Traced& of) { derivatives[c][i] = of; });
    for (const auto& channel : derivatives)
      for (const Traced& each : channel) recorded.push_back(each.expression());
    return recorded;
  }
  using D = Dual<Traced, variables>;
  Theta<Map, D> dual_theta{};
  for (std::size_t p = 0; p < scalars; ++p) dual_theta[p] = D::variable(theta[p], 1 + p);
  const ElementOfRowMap<Map, D> dual{
      D::variable(argument, 0), {.visible = D(row.visible), .shift = D(row.shift)}, dual_theta};
  std::vector<std::array<std::array<Traced, variables>, variables>> second(derivatives.size());
  dual.derivatives(function, [&](std::size_t c, std::size_t i, const D& of) { second[c][i] = of.derivative; });
  for (const auto& channel : second)
    for (const auto& along : channel)
      for (const Traced& each : along) recorded.push_back(each.expression());
  return recorded;
}

}  // namespace cogwheel::authoring
