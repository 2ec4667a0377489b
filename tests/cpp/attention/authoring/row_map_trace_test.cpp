// What row maps compute, recorded: the values are those of the headers, and nothing is recorded twice or for nothing.
#include "cogwheel/attention/authoring/row_map_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/lane.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

constexpr double shift_of_row = 1.5, visible_of_row = 37;
const std::vector<double> theta_of_row{0.25, 1.75};

double value_of(std::string_view variable, double argument) {
  if (variable == argument_variable) return argument;
  if (variable == shift_variable) return shift_of_row;
  if (variable == visible_variable) return visible_of_row;
  return theta_of_row.at(static_cast<std::size_t>(variable.back() - '0'));
}

// The functions' values, each step rounded to double.
std::vector<double> of_the_trace(const Trace& trace, double argument) {
  std::vector<double> values;
  for (const TraceStep& step : trace.steps) {
    std::vector<long double> arguments;
    for (const std::size_t each : step.arguments) arguments.push_back(values[each]);
    if (step.is_number())
      values.push_back(step.value);
    else if (step.is_variable())
      values.push_back(value_of(step.name, argument));
    else
      values.push_back(static_cast<double>(value_of_operation(step.name, arguments)));
  }
  std::vector<double> results;
  for (const std::size_t result : trace.results) results.push_back(values[result]);
  return results;
}

std::vector<double> of_the_header(const RowMapValues<double>& map, RowMapFunction function, int order,
                                  double argument) {
  auto functions = static_cast<std::size_t>(channels_of(function));
  for (int i = 0; i < order; ++i) functions *= static_cast<std::size_t>(map.variables);
  std::vector<double> out(functions);
  map.evaluate({.function = function,
                .order = order,
                .count = 1,
                .argument = &argument,
                .shift = &shift_of_row,
                .visible = &visible_of_row,
                .theta = theta_of_row.data(),
                .out = out.data(),
                .channel_stride = 1});
  return out;
}

// Calls visit(name of the map, function, order, trace) for each that a map has.
template <class Visit>
void each_trace(const Visit& visit) {
  for (const Mechanism& mechanism : mechanisms()) {
    if (!mechanism.is_row_map()) continue;
    const std::string name(mechanism.description.name);
    for (const RowMapFunction function : {RowMapFunction::terms, RowMapFunction::normalizer, RowMapFunction::energy})
      for (int order = 0; order <= (function == RowMapFunction::energy ? 0 : max_derivative_order); ++order) {
        const Trace* const trace = row_map_trace(name, function, order);
        ASSERT_NE(trace, nullptr) << name;
        visit(name, function, order, *trace);
      }
  }
}

TEST(RowMapTrace, HasTheValuesOfTheHeader) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> arguments{0., -0., 1e-300, -1e-300, 700, -700, 1e4, -1e4, infinity, -infinity, std::nan("")};
  for (int i = -200; i <= 200; ++i) arguments.push_back(i * 0.043 + 0.001);
  std::set<std::string> maps;
  each_trace([&](const std::string& name, RowMapFunction function, int order, const Trace& trace) {
    maps.insert(name);
    const auto& map = row_map_values<double>(name);
    for (const double argument : arguments) {
      const auto found = of_the_trace(trace, argument);
      const auto expected = of_the_header(map, function, order, argument);
      ASSERT_EQ(found.size(), expected.size()) << name;
      for (std::size_t i = 0; i < found.size(); ++i) {
        // Products with the derivative of a constant are not recorded: far out a dual number has ∞·0 there, or NaN·0.
        const bool is_near = std::abs(argument) < 700;
        if (std::isnan(expected[i]) && order > 0 && !is_near) continue;
        if (std::isfinite(expected[i]))
          EXPECT_NEAR(found[i], expected[i], 1e-13 * std::max(1., std::abs(expected[i])))
              << name << ", order " << order << ", at " << argument;
        else
          EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i])
              << name << ", order " << order << ", at " << argument << ": " << found[i] << " for " << expected[i];
      }
    }
  });
  EXPECT_EQ(maps.size(), 12u);
}

// Each step once, none that nothing reads, and no products with the derivatives of constants.
TEST(RowMapTrace, HasNoMoreStepsThanItNeeds) {
  each_trace([&](const std::string& name, RowMapFunction, int order, const Trace& trace) {
    std::set<std::string> texts;
    const auto last = trace.last_uses();
    for (std::size_t i = 0; i < trace.steps.size(); ++i) {
      const TraceStep& step = trace.steps[i];
      std::string text = step.name + " " + std::to_string(std::bit_cast<std::uint64_t>(step.value));
      for (const std::size_t argument : step.arguments) {
        EXPECT_LT(argument, i);
        text += " " + std::to_string(argument);
        const TraceStep& of = trace.steps[argument];
        EXPECT_FALSE(step.name == "*" && of.is_number() && of.value == 0) << name << ", order " << order;
      }
      EXPECT_TRUE(texts.insert(text).second) << name << ": " << text;
      EXPECT_TRUE(last[i] < trace.steps.size() ||
                  std::find(trace.results.begin(), trace.results.end(), i) != trace.results.end());
    }
  });
  const Trace& softmax = *row_map_trace("softmax", RowMapFunction::terms, 1);  // f′ = g′ = exp(s − m)
  EXPECT_EQ(softmax.results, std::vector<std::size_t>(2, softmax.results[0]));
  EXPECT_EQ(softmax.steps.size(), 4u);
}

std::vector<ExpressionPointer> a_long_sum(RowMapFunction, int) {
  Traced sum = Traced::variable(argument_variable);
  for (std::size_t i = 0; i <= max_steps; ++i) sum = lane::exp(sum) + sum;
  return {sum.expression()};
}

TEST(RowMapTrace, IsNotMadeOfWhatIsTooLong) {
  add_row_map_trace("a_long_sum", a_long_sum);
  EXPECT_EQ(row_map_trace("a_long_sum", RowMapFunction::normalizer, 0), nullptr);
  try {
    row_map_trace("polynomial", RowMapFunction::terms, 0);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "no trace of polynomial");
  }
}

TEST(RowMapTrace, HasNumbersForOperationsOnNumbers) {
  const auto traced = [](const Traced& x) { return trace_of(std::array{x.expression()}); };
  const Traced s = Traced::variable("s"), half(0.5), two(2);
  const Trace product = traced(lane::tanh(half) * s);
  ASSERT_EQ(product.steps.size(), 3u);
  EXPECT_EQ(product.steps[0].value, std::tanh(0.5));
  EXPECT_EQ(traced(lane::select(half > two, lane::exp(s), s)).steps.size(), 1u);
  EXPECT_EQ(traced(lane::copysign(two, -half)).steps[0].value, -2);
}

// Zeros that a formula has are kept, as is what their sign does; what is recorded cannot be branched on.
TEST(TracedLane, LeavesOutOnlyWhatChangesNoBit) {
  const Traced s = Traced::variable("s"), zero(0), one(1);
  EXPECT_EQ((s + zero).expression()->name, "+");
  EXPECT_EQ((s * zero).expression()->name, "*");
  EXPECT_EQ((zero - s).expression()->name, "-");
  EXPECT_EQ((s * one).expression(), s.expression());
  EXPECT_EQ((s / one).expression(), s.expression());
  EXPECT_EQ((-(-s)).expression(), s.expression());
  const Traced none = lane::zero_derivative<Traced>();
  EXPECT_EQ((s + none).expression(), s.expression());
  EXPECT_EQ((s * none + s).expression(), s.expression());
  EXPECT_EQ((none / s - s).expression()->name, "neg");
  EXPECT_EQ(lane::select(s > zero, none, none).expression(), none.expression());
  EXPECT_EQ(lane::max(s, zero).expression()->name, "where");
  static_assert(!std::convertible_to<Traced::Condition, bool>);
}

}  // namespace
}  // namespace cogwheel::authoring
