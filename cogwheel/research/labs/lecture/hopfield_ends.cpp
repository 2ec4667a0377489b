// Ends beyond the capacity are states of a spin glass: Amit, Gutfreund and Sompolinsky (1985). Patterns of real
// numbers: the product W ξ has the signal and the noise that signs have, √(P/d); but signs of a real pattern are kept
// worse, because its small numbers are drowned: a sign fails with the probability arctan(√(P/d)/√(2/π))/π for normal
// numbers.
#include "cogwheel/research/labs/lecture/hopfield_ends.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lecture/hopfield_network.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"

namespace cogwheel::labs {
namespace hopfield_ends {
namespace {

constexpr double recalled_overlap = 0.9;
constexpr int bins = 40;
constexpr double lowest_energy = -1;  // of a histogram from there to 0, for each neuron

Draws draws_of(const LabParameters& given, std::int64_t part, std::int64_t load, std::int64_t number) {
  return {static_cast<std::uint64_t>(given.whole("seed")),
          (std::uint64_t{1} << 62) + static_cast<std::uint64_t>((part << 40) + (load << 24) + number)};
}

std::int64_t patterns_at(std::int64_t size, double load) {
  return std::max<std::int64_t>(1, std::llround(load * static_cast<double>(size)));
}

enum class Start { pattern, random };

struct Ends {
  double none = 0, other = 0;  // shares of ends at no pattern, and at another than that of the start
  std::vector<double> energies_of_patterns = {}, energies_of_none = {};  // for each neuron
};

Ends ends_of(std::int64_t size, std::int64_t patterns, std::int64_t tried, Start start, Draws draws, Draws starts) {
  const HopfieldNetwork network(size, patterns, std::move(draws));
  std::vector<std::vector<std::int32_t>> stored;
  for (std::int64_t number = 0; number < patterns; ++number) stored.push_back(network.pattern(number));
  Ends ends;
  for (std::int64_t number = 0; number < tried; ++number) {
    const std::int64_t own = number % patterns;
    std::vector<std::int32_t> state = stored[static_cast<std::size_t>(own)];
    if (start == Start::random)
      for (std::int32_t& sign : state) sign = starts.below(2) == 0 ? 1 : -1;
    state = network.settled(std::move(state));
    const std::vector<std::int32_t> fields = network.fields(state);
    const auto count = static_cast<double>(size);
    const double energy =
        -0.5 * static_cast<double>(std::inner_product(state.begin(), state.end(), fields.begin(), std::int64_t{0})) /
        (count * count);
    double most = 0;
    std::int64_t nearest = 0;
    for (std::int64_t each = 0; each < patterns; ++each) {
      const std::vector<std::int32_t>& pattern = stored[static_cast<std::size_t>(each)];
      // The mirror image of a pattern is as much an end as the pattern.
      const double overlap = std::abs(static_cast<double>(
                                 std::inner_product(state.begin(), state.end(), pattern.begin(), std::int64_t{0}))) /
                             count;
      if (overlap > most) most = overlap, nearest = each;
    }
    const bool is_pattern = most > recalled_overlap;
    ends.none += (is_pattern ? 0.0 : 1.0) / static_cast<double>(tried);
    ends.other += (is_pattern && nearest != own ? 1.0 : 0.0) / static_cast<double>(tried);
    (is_pattern ? ends.energies_of_patterns : ends.energies_of_none).push_back(energy);
  }
  return ends;
}

struct RealStep {
  double noise = 0;   // of W ξ beside its signal, root of the mean square
  double failed = 0;  // share of the signs of ξ that one step from sign(ξ) changes
};

RealStep real_step(std::int64_t size, std::int64_t patterns, Draws draws) {
  const at::Tensor stored = normal_tensor({patterns, size}, 1, draws);
  at::Tensor weights = at::matmul(stored.t(), stored) / static_cast<double>(size);
  weights.fill_diagonal_(0);
  const at::Tensor found = at::matmul(stored, weights),
                   signal = stored.square().sum(-1, true) / static_cast<double>(size);
  const at::Tensor fields = at::matmul(stored.sign(), weights);
  return {(found / signal - stored).square().mean().sqrt().item<double>(),
          (fields * stored).lt(0).to(at::kDouble).mean().item<double>()};
}

pages::ChartSeries histogram(const std::string& name, const std::vector<double>& energies) {
  pages::ChartSeries series{.name = name, .x = {}, .y = {}, .points = false};
  std::vector<double> counts(bins);
  for (const double energy : energies)
    ++counts[static_cast<std::size_t>(
        std::clamp<int>(static_cast<int>(bins * (energy - lowest_energy) / -lowest_energy), 0, bins - 1))];
  for (int bin = 0; bin < bins; ++bin) {
    series.x.push_back(lowest_energy - lowest_energy * (bin + 0.5) / bins);
    series.y.push_back(counts[static_cast<std::size_t>(bin)]);
  }
  return series;
}

struct LoadedEnds {
  std::vector<double> none, other;  // of each network
  std::vector<double> energies_of_patterns, energies_of_none;
};

}  // namespace
}  // namespace hopfield_ends

std::vector<LabParameter> hopfield_end_parameters() {
  using enum LabParameter::Kind;
  return {
      {"end_size", {500}, {8, 4096}, "d, of the networks whose ends are looked at"},
      {"end_loads", {0.05, 0.1, 0.138, 0.16, 0.2, 0.3}, {0.001, 1}, "P/d of these, rising", real, true},
      {"end_networks", {6}, {2, 10000}, "of each load"},
      {"ends_tried", {30}, {1, 8192}, "starts of each network, at patterns and at random states"},
      {"real_networks", {4}, {2, 10000}, "of patterns of real numbers, of error_size neurons and each of error_loads"}};
}

void add_hopfield_ends(const LabParameters& given, const LabHost& host, LabResult& result) {
  using namespace hopfield_ends;
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::vector<double>& loads = given.numbers("end_loads");
  const std::int64_t size = given.whole("end_size"), networks = given.whole("end_networks");
  const auto count = static_cast<std::int64_t>(loads.size());
  std::vector<Ends> ends(static_cast<std::size_t>(2 * count * networks));
  side_by_side(std::ssize(ends), host, [&](std::int64_t index) {
    const std::int64_t load = index / 2 / networks, number = index / 2 % networks;
    ends[static_cast<std::size_t>(index)] =
        ends_of(size, patterns_at(size, loads[static_cast<std::size_t>(load)]), given.whole("ends_tried"),
                index % 2 == 0 ? Start::pattern : Start::random, draws_of(given, 1, load, number),
                draws_of(given, 2, load, number));
  });
  std::vector<LoadedEnds> by_pattern(loads.size()), by_random(loads.size());
  for (std::size_t index = 0; index < ends.size(); ++index) {
    const std::size_t load = index / 2 / static_cast<std::size_t>(networks);
    LoadedEnds& of = index % 2 == 0 ? by_pattern[load] : by_random[load];
    of.none.push_back(ends[index].none), of.other.push_back(ends[index].other);
    for (const double each : ends[index].energies_of_patterns) of.energies_of_patterns.push_back(each);
    for (const double each : ends[index].energies_of_none) of.energies_of_none.push_back(each);
  }

  pages::LineChart chart{.title = fmt::format("Ends that are no pattern, d = {}", size),
                         .x = {.title = "P/d"},
                         .y = {.title = "share of ends", .min = 0, .max = 1},
                         .series = {{.name = "from a pattern", .x = loads, .y = {}, .error = {}},
                                    {.name = "from a random state", .x = loads, .y = {}, .error = {}}},
                         .marks = {{pages::ChartMark::Axis::x, 0.138, "0.138"}}};
  pages::TextTable table{fmt::format("Where networks end, d = {}: energy for each neuron", size),
                         {"P/d", "no pattern, from a pattern", "another pattern", "no pattern, from a random state",
                          "energy at patterns", "energy at no pattern"},
                         {}};
  for (std::size_t load = 0; load < loads.size(); ++load) {
    const Mean of_pattern = mean_of(by_pattern[load].none), of_random = mean_of(by_random[load].none);
    chart.series[0].y.push_back(of_pattern.value), chart.series[0].error.push_back(of_pattern.error);
    chart.series[1].y.push_back(of_random.value), chart.series[1].error.push_back(of_random.error);
    std::vector<double> at_patterns = by_pattern[load].energies_of_patterns,
                        at_none = by_pattern[load].energies_of_none;
    for (const double each : by_random[load].energies_of_patterns) at_patterns.push_back(each);
    for (const double each : by_random[load].energies_of_none) at_none.push_back(each);
    const auto energy = [](const std::vector<double>& all) {
      return all.empty() ? std::string("–") : fmt::format("{:.4f}", mean_of(all).value);
    };
    table.rows.push_back({fmt::format("{:g}", loads[load]), fmt::format("{:.3f}", of_pattern.value),
                          fmt::format("{:.3f}", mean_of(by_pattern[load].other).value),
                          fmt::format("{:.3f}", of_random.value), energy(at_patterns), energy(at_none)});
  }
  const std::string least = fmt::format("P/d = {:g}, d = {}", loads.front(), size),
                    most = fmt::format("P/d = {:g}, d = {}", loads.back(), size);
  result.findings.push_back(
      of_draws({"Ends at no pattern, from a pattern, " + least, follows, loads.front() <= 0.1 ? at_most : shown, 0.05},
               by_pattern.front().none));
  result.findings.push_back(
      of_draws({"The same, " + most, follows, loads.back() >= 0.2 ? above : shown, 0.9, 0, 0,
                "Beyond the capacity a network still ends somewhere: at states of a spin glass, which are no pattern."},
               by_pattern.back().none));
  result.findings.push_back(of_draws({"Ends at no pattern, from a random state, " + least, nobody, shown, 0, 0, 0,
                                      "Below the capacity too: mixtures of patterns are ends as well."},
                                     by_random.front().none));

  const std::vector<double>& real_loads = given.numbers("error_loads");
  const std::int64_t real_size = given.whole("error_size"), real_networks = given.whole("real_networks");
  std::vector<RealStep> steps(real_loads.size() * static_cast<std::size_t>(real_networks));
  side_by_side(std::ssize(steps), host, [&](std::int64_t index) {
    const std::int64_t load = index / real_networks;
    steps[static_cast<std::size_t>(index)] =
        real_step(real_size, patterns_at(real_size, real_loads[static_cast<std::size_t>(load)]),
                  draws_of(given, 3, load, index % real_networks));
  });
  pages::ChartSeries failed{.name = "measured", .x = real_loads, .y = {}, .line = false},
      formula{.name = "arctan(√(P/d) √(π/2))/π", .x = real_loads, .y = {}, .points = false, .expected = true};
  std::vector<double> noise, fails;  // over what is expected, of all loads and networks
  for (std::size_t load = 0; load < real_loads.size(); ++load) {
    const auto patterns = static_cast<double>(patterns_at(real_size, real_loads[load]));
    const double root = std::sqrt(patterns / static_cast<double>(real_size));
    formula.y.push_back(std::atan(root * std::sqrt(std::numbers::pi / 2)) / std::numbers::pi);
    std::vector<double> values;
    for (std::int64_t number = 0; number < real_networks; ++number) {
      const RealStep& step = steps[load * static_cast<std::size_t>(real_networks) + static_cast<std::size_t>(number)];
      values.push_back(step.failed);
      noise.push_back(step.noise / std::sqrt((patterns - 1) / static_cast<double>(real_size)));
      fails.push_back(step.failed / formula.y.back());
    }
    failed.y.push_back(mean_of(values).value);
  }
  if (std::ranges::all_of(real_loads, [&](double load) { return patterns_at(real_size, load) > 1; }))
    result.findings.push_back(
        of_draws({"Real patterns: noise of W ξ beside its signal, over √((P − 1)/d), W_ii = 0", follows, near, 1, 0.1,
                  0, "So what the lecture says of floats holds of the product."},
                 noise));
  result.findings.push_back(
      of_draws({"Real patterns: signs that fail in one step, over arctan(√(P/d) √(π/2))/π", ours, near, 1, 0.1, 0,
                "Of signs as patterns Q(√(d/P)) fail, at P/d = 0.138 one in 280; of the signs of real patterns one in "
                "seven. The "
                "signal of a number is as large as the number, and small ones are lost: a network that settles does "
                "not keep floats."},
               fails));
  result.charts.push_back(std::move(chart));
  std::vector<double> of_patterns = by_pattern.front().energies_of_patterns,
                      of_none = by_pattern.back().energies_of_none;
  result.charts.push_back({.title = "Energies of ends",
                           .x = {.title = "−½ Σ s W s, for each neuron"},
                           .y = {.title = "ends"},
                           .series = {histogram(fmt::format("at patterns, P/d = {:g}", loads.front()), of_patterns),
                                      histogram(fmt::format("at no pattern, P/d = {:g}", loads.back()), of_none)}});
  result.charts.push_back({.title = "Signs of real patterns that fail in one step",
                           .x = {.title = "P/d"},
                           .y = {.title = "share of signs", .min = 0},
                           .series = {failed, formula}});
  result.tables.push_back(std::move(table));
}

}  // namespace cogwheel::labs
