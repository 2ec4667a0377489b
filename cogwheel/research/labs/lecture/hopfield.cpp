// How many patterns a network of Hopfield's recalls: W = (1/d) Σ_μ ξ^μ ξ^μᵀ. Amit, Gutfreund and
// Sompolinsky, "Storing Infinite Numbers of Patterns in a Spin-Glass Model of Neural Networks" (1985): up to
// P/d = 0.138 for d → ∞. In one step a bit fails with the probability Q(√(d/P)), if W_ii = 0; a diagonal that is kept
// adds P/d to the signal, Q((1 + P/d) √(d/P)).
#include "cogwheel/research/labs/lecture/hopfield_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "cogwheel/research/labs/draws.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lecture/hopfield_ends.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs::hopfield {
namespace {

constexpr double critical_load = 0.138, recalled_overlap = 0.9;

LabParameters parameters() {
  using enum LabParameter::Kind;
  constexpr Range<double> loads{0.001, 1};
  std::vector<LabParameter> all{
      {"sizes", {250, 500, 1000, 2000, 4000}, {8, 8192}, "d, neurons", whole, true},
      {"loads", {0.12, 0.13, 0.138, 0.146, 0.15, 0.16, 0.18}, loads, "P/d, patterns for each neuron", real, true},
      {"networks", {120, 60, 30, 12, 6}, {1, 100000}, "random networks of each size and load", whole, true},
      {"patterns_tried", {60}, {1, 8192}, "patterns of each network that it should recall"},
      {"error_size", {1000}, {8, 8192}, "d for the error of one step"},
      {"error_loads",
       {0.06, 0.08, 0.1, 0.12, 0.138, 0.16, 0.18, 0.2},
       loads,
       "P/d for the error of one step",
       real,
       true},
      {"error_networks", {10}, {1, 100000}, "random networks for the error of one step"},
      {"seed", {1}, {0, 1e15}, "of the patterns"}};
  for (LabParameter& each : hopfield_end_parameters()) all.push_back(std::move(each));
  return all;
}

std::int64_t patterns_at(std::int64_t size, double load) {
  return std::max<std::int64_t>(1, std::llround(load * static_cast<double>(size)));
}

// A network's random numbers depend on what it is alone, so that a result stays when another size or load is added.
Draws draws_of(std::int64_t seed, std::int64_t size, std::int64_t patterns, std::int64_t number) {
  return {static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>((size << 40) + (patterns << 20) + number)};
}

// The share of its patterns to which a network returns from the pattern itself.
double recalled_share(std::int64_t size, std::int64_t patterns, std::int64_t tried, Draws draws) {
  const HopfieldNetwork network(size, patterns, std::move(draws));
  tried = std::min(tried, patterns);
  std::int64_t recalled = 0;
  for (std::int64_t number = 0; number < tried; ++number) {
    const std::vector<std::int32_t> pattern = network.pattern(number), state = network.settled(pattern);
    const std::int64_t overlap = std::inner_product(pattern.begin(), pattern.end(), state.begin(), std::int64_t{0});
    recalled += static_cast<double>(overlap) > recalled_overlap * static_cast<double>(size) ? 1 : 0;
  }
  return static_cast<double>(recalled) / static_cast<double>(tried);
}

struct ErrorShares {
  double without = 0, with = 0;  // the diagonal
};

ErrorShares errors_of_one_step(std::int64_t size, std::int64_t patterns, Draws draws) {
  const HopfieldNetwork network(size, patterns, std::move(draws));
  ErrorShares errors;
  for (std::int64_t number = 0; number < patterns; ++number) {
    const std::vector<std::int32_t> pattern = network.pattern(number), field = network.fields(pattern);
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      errors.without += field[i] * pattern[i] < 0 ? 1 : 0;
      errors.with += field[i] * pattern[i] + patterns < 0 ? 1 : 0;  // d·W_ii = P
    }
  }
  const auto bits = static_cast<double>(size * patterns);
  return {errors.without / bits, errors.with / bits};
}

double upper_tail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }
double expected_error(double load, bool diagonal) { return upper_tail((1 + (diagonal ? load : 0)) / std::sqrt(load)); }

struct Share : Mean {
  double patterns = 0;                // of which it is the share
  std::vector<double> networks = {};  // the shares of each
};
using Recall = std::vector<std::vector<Share>>;  // [sizes, loads]

Recall measure_recall(const LabParameters& given, const std::vector<std::int64_t>& sizes,
                      const std::vector<double>& loads, const Executor& executor) {
  struct Part {
    std::size_t size, load;
    std::int64_t number;
  };
  std::vector<std::int64_t> networks = given.wholes("networks");
  networks.resize(sizes.size(), networks.back());
  std::vector<Part> parts;  // the largest first, so that no worker is left with one at the end
  for (std::size_t size = sizes.size(); size-- > 0;)
    for (std::size_t load = loads.size(); load-- > 0;)
      for (std::int64_t number = 0; number < networks[size]; ++number) parts.push_back({size, load, number});
  std::vector<double> shares(parts.size());
  executor.run(std::ssize(parts), [&](std::int64_t index, int) {
    const Part& part = parts[static_cast<std::size_t>(index)];
    const std::int64_t size = sizes[part.size], patterns = patterns_at(size, loads[part.load]);
    shares[static_cast<std::size_t>(index)] = recalled_share(
        size, patterns, given.whole("patterns_tried"), draws_of(given.whole("seed"), size, patterns, part.number));
  });
  Recall recall(sizes.size(), std::vector<Share>(loads.size()));
  for (std::size_t size = 0; size < sizes.size(); ++size)
    for (std::size_t load = 0; load < loads.size(); ++load) {
      std::vector<double> values;
      for (std::size_t index = 0; index < parts.size(); ++index)
        if (parts[index].size == size && parts[index].load == load) values.push_back(shares[index]);
      const std::int64_t tried = std::min(given.whole("patterns_tried"), patterns_at(sizes[size], loads[load]));
      recall[size][load] = {mean_of(values), static_cast<double>(tried * networks[size]), values};
    }
  return recall;
}

// ln(share / (1 − share)), about a straight line over the load, with its variance. Shares of all and of none are taken
// as half a pattern off.
std::pair<double, double> log_odds(const Share& share) {
  const double half = 0.5 / share.patterns, value = std::clamp(share.value, half, 1 - half);
  const double spread = value * (1 - value);
  return {std::log(value / (1 - value)),
          std::max(share.error * share.error, spread / share.patterns) / (spread * spread)};
}

// Where the larger network begins to recall less than the smaller: the straight line through the differences of their
// log odds.
std::optional<double> crossing_of(const std::vector<Share>& smaller, const std::vector<Share>& larger,
                                  const std::vector<double>& loads) {
  std::vector<double> x, difference, weight;
  for (std::size_t load = 0; load < loads.size(); ++load) {
    if (loads[load] < 0.12 - 1e-9 || loads[load] > 0.16 + 1e-9) continue;  // beyond, both recall all or nothing
    const auto [low, variance_low] = log_odds(smaller[load]);
    const auto [high, variance_high] = log_odds(larger[load]);
    x.push_back(loads[load]);
    difference.push_back(high - low);
    weight.push_back(1 / (variance_low + variance_high));
  }
  if (x.size() < 2) return std::nullopt;
  const StraightLine line = fit_line(x, difference, weight);
  const double root = -line.offset / line.slope;
  if (!(line.slope < 0) || root < x.front() || root > x.back()) return std::nullopt;
  return root;
}

struct OneStep {
  pages::LineChart chart;
  pages::TextTable table;
  std::vector<Finding> findings;
};

OneStep measure_one_step(const LabParameters& given, const Executor& executor) {
  const std::int64_t size = given.whole("error_size"), networks = given.whole("error_networks");
  const std::vector<double>& loads = given.numbers("error_loads");
  std::vector<ErrorShares> shares(loads.size() * static_cast<std::size_t>(networks));
  executor.run(std::ssize(shares), [&](std::int64_t index, int) {
    const std::int64_t patterns = patterns_at(size, loads[static_cast<std::size_t>(index / networks)]);
    // Apart from the networks of the recall, whose numbers are counted from 0.
    shares[static_cast<std::size_t>(index)] =
        errors_of_one_step(size, patterns, draws_of(given.whole("seed"), size, patterns, (1 << 19) + index % networks));
  });
  OneStep step{
      .chart = {.title = "Bits that fail in one step",
                .x = {.title = "P/d"},
                .y = {.title = "share of bits", .logarithmic = true},
                .series = {{.name = "W_ii = 0", .x = {}, .y = {}, .line = false},
                           {.name = "diagonal kept", .x = {}, .y = {}, .line = false},
                           {.name = "Q(√(d/P))", .x = {}, .y = {}, .points = false, .expected = true},
                           {.name = "Q((1 + P/d) √(d/P))", .x = {}, .y = {}, .points = false, .expected = true}},
                .marks = {{pages::ChartMark::Axis::x, critical_load, "0.138"}}},
      .table = {fmt::format("Share of bits that fail in one step, d = {}",
                            number_for_readers(static_cast<double>(size))),
                {"P/d", "W_ii = 0", "Q(√(d/P))", "diagonal kept", "Q((1 + P/d) √(d/P))"},
                {}},
      .findings = {}};
  for (std::size_t load = 0; load < loads.size(); ++load) {
    std::vector<double> without, with;
    for (std::int64_t number = 0; number < networks; ++number) {
      const ErrorShares& share = shares[load * static_cast<std::size_t>(networks) + static_cast<std::size_t>(number)];
      without.push_back(share.without), with.push_back(share.with);
    }
    const Mean means[] = {mean_of(without), mean_of(with)};
    for (const std::size_t kept : {0U, 1U}) {
      pages::ChartSeries &measured = step.chart.series[kept], &formula = step.chart.series[2 + kept];
      measured.x.push_back(loads[load]), measured.y.push_back(means[kept].value),
          measured.error.push_back(means[kept].error);
      formula.x.push_back(loads[load]), formula.y.push_back(expected_error(loads[load], kept == 1));
    }
    step.table.rows.push_back({fmt::format("{}", loads[load]), fmt::format("{:.5f}", means[0].value),
                               fmt::format("{:.5f}", expected_error(loads[load], false)),
                               fmt::format("{:.5f}", means[1].value),
                               fmt::format("{:.5f}", expected_error(loads[load], true))});
    if (loads[load] != critical_load) continue;
    const bool large = size >= 500;  // the lattice of the fields is then fine enough for a normal distribution
    using enum Finding::Whose;
    const auto relation = large ? Finding::Relation::near : Finding::Relation::shown;
    step.findings = {
        of_draws({"Bits that fail in one step at P/d = 0.138, W_ii = 0", follows, relation, 0.0036, 0.0004}, without),
        of_draws({"The same with the diagonal kept", follows, relation, 0.0011, 0.0003, 0,
                  "A trap of the lecture's formula: the diagonal adds P/d of the pattern itself, so an experiment "
                  "that keeps it finds fewer errors and another threshold."},
                 with)};
  }
  return step;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  std::vector<std::int64_t> sizes = given.wholes("sizes");
  const std::vector<double>& loads = given.numbers("loads");
  const Recall recall = measure_recall(given, sizes, loads, host.executor);

  pages::LineChart chart{.title = "Patterns that are recalled",
                         .x = {.title = "P/d"},
                         .y = {.title = "share with an overlap above 0.9", .min = 0, .max = 1},
                         .series = {},
                         .marks = {{pages::ChartMark::Axis::x, critical_load, "0.138"}},
                         .caption = "The larger d, the steeper the fall. Bars: standard error over networks."};
  pages::TextTable table{"Share of patterns that are recalled", {"P/d"}, {}};
  for (std::size_t size = 0; size < sizes.size(); ++size) {
    const std::string name = "d = " + number_for_readers(static_cast<double>(sizes[size]));
    pages::ChartSeries series{.name = name, .x = loads, .y = {}, .error = {}};
    for (const Share& mean : recall[size]) series.y.push_back(mean.value), series.error.push_back(mean.error);
    chart.series.push_back(std::move(series));
    table.columns.push_back(name);
  }
  for (std::size_t load = 0; load < loads.size(); ++load) {
    table.rows.push_back({fmt::format("{}", loads[load])});
    for (std::size_t size = 0; size < sizes.size(); ++size)
      table.rows.back().push_back(fmt::format("{:.3f} ± {:.3f}", recall[size][load].value, recall[size][load].error));
  }

  LabResult result{.answer = "", .findings = {}, .charts = {chart}, .tables = {table}};
  std::vector<double> crossings;
  for (std::size_t size = 1; size < sizes.size(); ++size) {
    const std::optional<double> crossing = crossing_of(recall[size - 1], recall[size], loads);
    if (!crossing) continue;
    crossings.push_back(*crossing);
    result.findings.push_back({fmt::format("P/d at which d = {} begins to recall less than d = {}",
                                           number_for_readers(static_cast<double>(sizes[size])),
                                           number_for_readers(static_cast<double>(sizes[size - 1]))),
                               printed, near, critical_load, 0.01, *crossing});
  }
  if (!crossings.empty())
    result.answer = fmt::format(
        "Networks of all sizes recall the same share of their patterns at P/d ≈ {:.3f}; below, larger ones recall "
        "more, "
        "above, less. The jump at 0.138 is that of infinitely many neurons.",
        mean_of(crossings).value);
  else
    result.answer = "These sizes and loads are too few to show where the shares of recalled patterns cross.";
  for (std::size_t size = 0; size < sizes.size(); ++size)
    for (std::size_t load = 0; load < loads.size(); ++load)
      if (sizes[size] == 1000 && loads[load] == 0.16)
        result.findings.push_back(of_draws(
            {"Recalled at P/d = 0.16 with d = 1,000 (the lecture: none beyond 0.138)", follows, near, 0, 0.1, 0,
             "The lecture's threshold is a limit. With d = 1,000 about half of the patterns are still recalled well "
             "beyond it, and it takes thousands of neurons for the share to fall: the transition is a slope whose "
             "width shrinks as d grows, so a single network shows no 0.138. The crossing of the curves does."},
            recall[size][load].networks));
  OneStep step = measure_one_step(given, host.executor);
  result.findings.insert(result.findings.end(), step.findings.begin(), step.findings.end());
  result.charts.push_back(std::move(step.chart));
  result.tables.push_back(std::move(step.table));
  add_hopfield_ends(given, host, result);
  result.assumptions = {
      {"Patterns are random.",
       "Each sign with probability one half, independent. Similar patterns are recalled worse."},
      {"A network starts at the pattern itself.",
       "Recalled means that it settles with an overlap above 0.9. Whether it gets there from a part of the pattern is "
       "another question, with a lower capacity."},
      {"Neurons take turns.",
       "One after the other in a fixed order, until none changes, which lowers the energy each time. All at once may "
       "end in a cycle of two states and recalls a little less."},
      {"The diagonal is 0.", "As in Hopfield's network and in Amit's calculation; the lecture's W has P/d there."},
      {"It is a memory of patterns in W, not in h.",
       "The lecture goes from the capacity of W, d² numbers, to that of a state of d numbers. What is shown here is "
       "P ≈ 0.14 d patterns of d bits in d² weights."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::hopfield

namespace cogwheel::labs {
LabEntry hopfield_lab() {
  return {"hopfield",
          "Patterns in a Hopfield network",
          "Does a network of d neurons recall 0.138 d patterns, and none beyond?",
          hopfield::parameters(),
          hopfield::run,
          [](const LabParameters& given) { given.expect_rising("end_loads"); }};
}
}  // namespace cogwheel::labs
