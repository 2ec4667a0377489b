// How many directions fit into k dimensions if they need not be orthogonal: the lemma of Johnson and Lindenstrauss.
// Dasgupta and Gupta, "An elementary proof of a theorem of Johnson and Lindenstrauss" (2003). The items
// are N orthonormal vectors, the map is R/√k with Gaussian R, so that item i becomes column i of it; the ratio of a
// squared distance to what it was follows χ²_k/k, exactly.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numbers>

#include "cogwheel/research/labs/draws.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs::projection {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"points", {1000}, {2, 5000}, "N, items, each a direction of its own"},
           {"dimensions", {222}, {1, 10000}, "k, dimensions that they are mapped to"},
           {"epsilon", {0.5}, {0, 1, true, true}, "ε, how far a squared distance may be off", real},
           {"draws", {100}, {1, 100000}, "random maps"},
           {"dimensions_tried", {64, 96, 128, 160, 192, 222, 256}, {1, 10000}, "k in the second chart", whole, true},
           {"draws_tried", {20}, {1, 100000}, "random maps for each of these"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

// The probability that χ²_k/k is beyond 1 ± ε.
double beyond_probability(double k, double epsilon) {
  return boost::math::gamma_q(k / 2, k * (1 + epsilon) / 2) + boost::math::gamma_p(k / 2, k * (1 - epsilon) / 2);
}

double density(double k, double ratio) {  // of χ²_k/k
  return k *
         std::exp((k / 2 - 1) * std::log(k * ratio) - k * ratio / 2 - k / 2 * std::numbers::ln2 - std::lgamma(k / 2));
}

constexpr double bin_width = 0.025;
constexpr std::size_t bins = 120;  // up to a ratio of 3

struct Draw {
  std::int64_t beyond = 0;
  double smallest = 0, largest = 0;  // ratio
  std::vector<std::int64_t> histogram;
};

Draw draw_map(std::int64_t points, std::int64_t k, double epsilon, Draws draws) {
  at::Tensor map = at::empty({points, k}, at::kDouble);
  double* const entries = map.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < points * k; ++i) entries[i] = draws.normal();
  const at::Tensor products = at::mm(map, map.t());
  const double* const product = products.const_data_ptr<double>();
  Draw draw{.smallest = 1e300, .largest = 0, .histogram = std::vector<std::int64_t>(bins, 0)};
  for (std::int64_t i = 0; i < points; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const double distance = product[i * points + i] + product[j * points + j] - 2 * product[i * points + j];
      const double ratio = distance / static_cast<double>(2 * k);  // orthonormal items are √2 apart
      draw.beyond += std::abs(ratio - 1) > epsilon ? 1 : 0;
      draw.smallest = std::min(draw.smallest, ratio), draw.largest = std::max(draw.largest, ratio);
      const auto bin = static_cast<std::size_t>(ratio / bin_width);
      if (bin < bins) ++draw.histogram[bin];
    }
  return draw;
}

std::vector<Draw> draw_maps(std::int64_t count, std::int64_t points, std::int64_t k, double epsilon, std::uint64_t seed,
                            std::uint64_t part, const Executor& executor) {
  std::vector<Draw> draws(static_cast<std::size_t>(count));
  executor.run(count, [&](std::int64_t index, int) {
    const auto number = static_cast<std::uint64_t>(index);
    draws[number] = draw_map(points, k, epsilon, Draws(seed, part << 32 | number));
  });
  return draws;
}

std::vector<double> pairs_of_maps(const std::vector<Draw>& draws) {
  std::vector<double> counts;
  for (const Draw& draw : draws) counts.push_back(static_cast<double>(draw.beyond));
  return counts;
}

Mean pairs_beyond(const std::vector<Draw>& draws) { return mean_of(pairs_of_maps(draws)); }

pages::LineChart ratios(const std::vector<Draw>& draws, double k, double epsilon, double pairs) {
  pages::LineChart chart{
      .title = "Squared distances after the map, over those before",
      .x = {.title = "ratio"},
      .y = {.title = "density", .logarithmic = true},
      .series = {{.name = "measured", .x = {}, .y = {}, .line = false},
                 {.name = "χ² of k degrees, over k", .x = {}, .y = {}, .points = false, .expected = true}},
      .marks = {{pages::ChartMark::Axis::x, 1 - epsilon, "1 − ε"}, {pages::ChartMark::Axis::x, 1 + epsilon, "1 + ε"}},
      .caption = "The lowest points are single pairs among all draws."};
  for (std::size_t bin = 0; bin < bins; ++bin) {
    std::int64_t count = 0;
    for (const Draw& draw : draws) count += draw.histogram[bin];
    if (count == 0) continue;
    const double middle = (static_cast<double>(bin) + 0.5) * bin_width;
    chart.series[0].x.push_back(middle);
    chart.series[0].y.push_back(static_cast<double>(count) / (pairs * static_cast<double>(draws.size()) * bin_width));
    chart.series[1].x.push_back(middle), chart.series[1].y.push_back(density(k, middle));
  }
  return chart;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::int64_t points = given.whole("points"), k = given.whole("dimensions");
  const double epsilon = given.number("epsilon"), pairs = 0.5 * static_cast<double>(points * (points - 1));
  const auto seed = static_cast<std::uint64_t>(given.whole("seed"));
  const bool as_in_source = given.same(parameters(), {"points", "dimensions", "epsilon"});
  const double needed = std::ceil(8 * std::log(static_cast<double>(points)) / (epsilon * epsilon));
  const double expected = pairs * beyond_probability(static_cast<double>(k), epsilon);

  const std::vector<Draw> draws = draw_maps(given.whole("draws"), points, k, epsilon, seed, 0, host.executor);
  const Mean beyond = pairs_beyond(draws);
  double without = 0, smallest = 1e300, largest = 0;
  const double maps = static_cast<double>(draws.size());
  // The square of a mean's standard error is the variance over the number of maps.
  const double spread = beyond.value > 0 ? beyond.error * beyond.error * maps / beyond.value : 0;
  for (const Draw& draw : draws) {
    without += draw.beyond == 0 ? 1 : 0;
    smallest = std::min(smallest, draw.smallest), largest = std::max(largest, draw.largest);
  }

  pages::LineChart by_dimensions{.title = "Pairs beyond ε, by the dimensions",
                                 .x = {.title = "k, dimensions"},
                                 .y = {.title = "pairs beyond ε in a map", .logarithmic = true},
                                 .series = {{.name = "measured", .x = {}, .y = {}, .line = false},
                                            {.name = "by χ²", .x = {}, .y = {}, .points = false, .expected = true}},
                                 .marks = {{pages::ChartMark::Axis::x, needed, "8 ln N / ε²"}},
                                 .caption = "Where no pair of any map was beyond ε, no point is drawn."};
  pages::TextTable table{"Pairs beyond ε, by the dimensions", {"k", "measured", "by χ²", "of all pairs, by χ²"}, {}};
  std::uint64_t part = 1;
  for (const std::int64_t tried : given.wholes("dimensions_tried")) {
    const Mean mean =
        pairs_beyond(draw_maps(given.whole("draws_tried"), points, tried, epsilon, seed, part++, host.executor));
    const double chance = beyond_probability(static_cast<double>(tried), epsilon);
    by_dimensions.series[0].x.push_back(static_cast<double>(tried));
    by_dimensions.series[0].y.push_back(mean.value);
    by_dimensions.series[0].error.push_back(mean.error);
    by_dimensions.series[1].x.push_back(static_cast<double>(tried));
    by_dimensions.series[1].y.push_back(pairs * chance);
    table.rows.push_back({number_for_readers(static_cast<double>(tried)),
                          fmt::format("{:.2f} ± {:.2f}", mean.value, mean.error), fmt::format("{:.2f}", pairs * chance),
                          fmt::format("{:.2e}", chance)});
  }
  return {
      .answer =
          fmt::format("{} orthogonal items, which need {} dimensions, fit into {} with {:.2f} of {} pairs beyond "
                      "ε = {} in a random map; {:.0f} of {} maps have none.",
                      number_for_readers(static_cast<double>(points)), number_for_readers(static_cast<double>(points)),
                      k, beyond.value, number_for_readers(pairs), epsilon, without, draws.size()),
      .findings =
          {{"Dimensions that suffice, 8 ln N / ε²", follows, as_in_source ? near : shown, 222, 0, needed},
           {"Pairs beyond ε in a map, by χ²", ours, as_in_source ? near : shown, 1, 0.5, expected},
           of_draws(
               {"Pairs beyond ε in a map, measured (beside χ²)", ours, near, expected,
                as_in_source ? 0.5
                             : std::max(0.5 * expected, 4 * std::sqrt(expected / static_cast<double>(draws.size())))},
               pairs_of_maps(draws)),
           {"Share of maps without such a pair (the lemma: there is one)",
            follows, static_cast<double>(k) >= needed ? above : shown, 0, 0, without / maps},
           {"Variance of their number over its mean (1: independent pairs)", nobody, shown, 0, 0, spread,
            "Above 1 because pairs share items; so more maps are without such a pair than e to the minus their mean."},
           {"Items by the bound, e^(kε²/8)", nobody, shown, 0, 0,
            std::exp(static_cast<double>(k) * epsilon * epsilon / 8),
            "The lecture rounds the number of items to e^d. The exponent is kε²/8: at ε = 0.5, e times as many items "
            "take 32 "
            "dimensions more, not one."},
           {"Smallest ratio of squared distances", nobody, shown, 0, 0, smallest},
           {"Largest ratio of squared distances", nobody, shown, 0, 0, largest}},
      .charts = {ratios(draws, static_cast<double>(k), epsilon, pairs), by_dimensions},
      .tables = {table},
      .assumptions = {
          {"The items are orthonormal.",
           "Each has a direction of its own, as the lecture wants, so N items take N dimensions before the map. "
           "Any other points give the same distribution for each pair."},
          {"The map is Gaussian.",
           "The lemma says that a good map exists; a random one is good with a "
           "probability that the number of pairs beyond ε tells."},
          {"8 ln N / ε² is the lecture's constant.",
           "It leaves out terms of order ε³: a random map of so many dimensions has about one bad pair. "
           "Bad pairs come together, since pairs share items and an item that the map makes long or short "
           "is in many, so that more maps are without any than the e⁻¹ = 0.37 of independent pairs: 0.434 ± "
           "0.014 of 1,200 (seed 7)."}}};
}

}  // namespace
}  // namespace cogwheel::labs::projection

namespace cogwheel::labs {
LabEntry projection_lab() {
  return {"projection", "Nearly orthogonal directions",
          "Do 1,000 items, each with a direction of its own, fit into 222 dimensions if distances may be off by half?",
          projection::parameters(), projection::run};
}
}  // namespace cogwheel::labs
