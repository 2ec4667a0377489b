// Row maps element by element: every order of derivation is the finite difference of the one below.
#include "cogwheel/attention/kernels/pairwise/row_map_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

std::vector<double> values(const RowMapValues<double>& map, RowMapFunction function, int order, double argument,
                           const std::vector<double>& theta) {
  const double shift = 0.25, visible = 6;
  auto channels = static_cast<std::size_t>(channels_of(function));
  for (int i = 0; i < order; ++i) channels *= static_cast<std::size_t>(map.variables);
  std::vector<double> out(channels, std::nan(""));
  map.evaluate({.function = function,
                .order = order,
                .count = 1,
                .argument = &argument,
                .shift = &shift,
                .visible = &visible,
                .theta = theta.data(),
                .out = out.data(),
                .channel_stride = 1});
  return out;
}

TEST(RowMapValues, EachOrderIsTheDerivativeOfTheOneBelow) {
  const double h = 1e-5;
  int maps = 0;
  for (const Mechanism& mechanism : mechanisms()) {
    if (!mechanism.is_row_map()) continue;
    const auto& map = row_map_values<double>(mechanism.pairwise()->member);
    ++maps;
    const auto variables = static_cast<std::size_t>(map.variables);
    std::vector<double> theta;
    for (std::size_t p = 1; p < variables; ++p) theta.push_back(0.4 + 0.5 * static_cast<double>(p));
    for (const RowMapFunction function : {RowMapFunction::terms, RowMapFunction::normalizer})
      for (const double argument : {0.7, 1.9, -0.8}) {
        if (function == RowMapFunction::normalizer && argument < 0) continue;
        for (int order = 1; order <= max_derivative_order; ++order) {
          const auto derivatives = values(map, function, order, argument, theta);
          for (std::size_t variable = 0; variable < variables; ++variable) {
            const auto moved = [&](double step) {
              auto scalars = theta;
              if (variable > 0) scalars[variable - 1] += step;
              return values(map, function, order - 1, argument + (variable == 0 ? step : 0), scalars);
            };
            const auto up = moved(h), down = moved(-h);
            for (std::size_t i = 0; i < up.size(); ++i)
              EXPECT_NEAR(derivatives[i * variables + variable], (up[i] - down[i]) / (2 * h),
                          1e-8 * (1 + std::abs(derivatives[i * variables + variable])))
                  << mechanism.pairwise()->member << " order " << order << " variable " << variable << " at "
                  << argument;
          }
        }
      }
  }
  EXPECT_GE(maps, 12);
}

// As in the scalar functions of the catalogue: the running maximum starts at a sink, or at −∞.
TEST(RowMapValues, EnergiesAreThoseOfTheMap) {
  const std::vector<double> theta{0.9, 1.4};
  for (const Mechanism& mechanism : mechanisms()) {
    if (!mechanism.is_row_map()) continue;
    const ScalarMap& scalar = *mechanism.pairwise()->scalar;
    const auto& map = row_map_values<double>(mechanism.pairwise()->member);
    for (const double score : {0.7, -1.9}) {
      const auto found = values(map, RowMapFunction::energy, 0, score, theta);
      const bool has_energy = mechanism.pairwise()->has_energy;
      const double lowest = has_energy ? -std::numeric_limits<double>::infinity() : 0;
      EXPECT_EQ(found[0], has_energy ? scalar.energy(theta.data(), score) : 0) << mechanism.description.name;
      EXPECT_EQ(found[1], scalar.initial_energy ? scalar.initial_energy(theta.data()) : lowest);
    }
  }
}

TEST(RowMapValues, RefusesWhatIsNoRowMap) {
  try {
    row_map_values<float>("polynomial");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "no kernel for polynomial element by element");
  }
}

}  // namespace
}  // namespace cogwheel
