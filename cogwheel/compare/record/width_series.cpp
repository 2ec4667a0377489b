#include "cogwheel/compare/record/width_series.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/compare/statistics/seed_bootstrap.h"

namespace cogwheel::compare {
namespace {

constexpr std::size_t fewest_widths = 3;

// [seed][width]: of the seeds that finished at every width.
using Values = std::vector<std::vector<double>>;

// Values of a row's runs, or, with `against`, of paired differences to another's.
Values values_of_series(const Comparison& comparison, const std::vector<WidthPoint>& points, bool differences) {
  Values values;
  for (const std::int64_t seed : comparison.settings.seeds) {
    std::vector<double> of_seed;
    for (const WidthPoint& point : points) {
      const double* const value = comparison.result(comparison.run(point.row, seed));
      const double* const base =
          differences ? comparison.result(comparison.run(comparison.base_of(point.row), seed)) : value;
      if (value != nullptr && base != nullptr) of_seed.push_back(differences ? *value - *base : *value);
    }
    if (of_seed.size() == points.size()) values.push_back(std::move(of_seed));
  }
  return values;
}

std::vector<double> means(const Values& values) {
  std::vector<double> mean(values.front().size());
  for (const std::vector<double>& of_seed : values)
    for (std::size_t width = 0; width < mean.size(); ++width)
      mean[width] += of_seed[width] / static_cast<double>(values.size());
  return mean;
}

FittedLaw fitted_law(const std::vector<double>& sizes, const Values& values, std::optional<double> least) {
  const PowerLawFit fit(sizes, least);
  const std::vector<double> mean = means(values);
  const PowerLaw law = fit(mean);
  FittedLaw found{.limit = {.value = law.limit}, .factor = {.value = law.factor}, .exponent = {.value = law.exponent}};
  if (values.size() < 2) return found;
  std::vector<double> limits, factors, exponents;
  for (std::int64_t draw = 0; draw < bootstrap_draws; ++draw) {
    const std::vector<double> weights = seed_weights(std::ssize(values), bootstrap_seed, draw);
    std::vector<double> drawn = mean;
    for (std::size_t seed = 0; seed < values.size(); ++seed)
      for (std::size_t width = 0; width < mean.size(); ++width)
        drawn[width] += weights[seed] * (values[seed][width] - mean[width]);
    const PowerLaw of_draw = fit(drawn);
    limits.push_back(of_draw.limit);
    factors.push_back(of_draw.factor);
    exponents.push_back(of_draw.exponent);
  }
  const auto set = [](FittedNumber& number, std::vector<double> draws) {
    const DrawnInterval interval = interval_of_draws(std::move(draws), 1 - significance_level);
    number.low = interval.low, number.high = interval.high;
  };
  set(found.limit, std::move(limits));
  set(found.factor, std::move(factors));
  set(found.exponent, std::move(exponents));
  return found;
}

// The slope of a line over log₂ of the sizes.
double slope(const std::vector<double>& sizes, const std::vector<double>& values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto count = static_cast<double>(sizes.size());
  for (std::size_t index = 0; index < sizes.size(); ++index)
    x += std::log2(sizes[index]) / count, y += values[index] / count;
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    const double from_mean = std::log2(sizes[index]) - x;
    xx += from_mean * from_mean;
    xy += from_mean * (values[index] - y);
  }
  return xy / xx;
}

struct GapTest {
  Gap gap = {};
  std::vector<double> slopes = {};  // of each seed
  double first = 0, last = 0;       // the line at the ends
  double rounding = 0;
};

GapTest gap_test(const std::vector<double>& sizes, const Values& differences, double of_values) {
  GapTest test;
  for (const std::vector<double>& of_seed : differences) test.slopes.push_back(slope(sizes, of_seed));
  const std::vector<double> mean = means(differences);
  test.gap.per_doubling = slope(sizes, mean);
  double middle = 0, x = 0;
  const auto count = static_cast<double>(sizes.size());
  for (std::size_t index = 0; index < sizes.size(); ++index)
    middle += mean[index] / count, x += std::log2(sizes[index]) / count;
  test.first = middle + test.gap.per_doubling * (std::log2(sizes.front()) - x);
  test.last = middle + test.gap.per_doubling * (std::log2(sizes.back()) - x);
  test.rounding = rounding_of(of_values);
  return test;
}

GapChange change_of(const GapTest& test) {
  if ((test.first < 0) != (test.last < 0)) return GapChange::changes_sign;
  return std::abs(test.last) > std::abs(test.first) ? GapChange::grows : GapChange::shrinks;
}

// Intervals and words, with Holm's correction for all series.
void decide_gaps(std::vector<WidthSeries>& all, std::vector<GapTest>& tests) {
  std::vector<double> p_values;
  std::vector<std::size_t> tested;
  for (std::size_t index = 0; index < all.size(); ++index)
    if (all[index].gap)
      if (const auto p = paired_p_value(tests[index].slopes, tests[index].rounding)) {
        p_values.push_back(*p);
        tested.push_back(index);
      }
  const std::vector<HolmStep> steps = holm(p_values);
  for (std::size_t place = 0; place < tested.size(); ++place) {
    Gap& gap = *all[tested[place]].gap;
    const GapTest& test = tests[tested[place]];
    gap.p_adjusted = steps[place].p_adjusted;
    gap.confidence = steps[place].confidence;
    gap.interval = estimate_mean(test.slopes, steps[place].confidence, test.rounding).interval;
    if (*gap.p_adjusted < significance_level) gap.change = change_of(test);
  }
}

const TuningTrial* trial(const Comparison& comparison, std::string_view row, double rate) {
  const auto found = std::find_if(comparison.tuning.begin(), comparison.tuning.end(), [&](const TuningTrial& each) {
    return each.mechanism == row && each.learning_rate == rate;
  });
  return found == comparison.tuning.end() ? nullptr : &*found;
}

}  // namespace

std::string_view gap_name(GapChange change) {
  switch (change) {
    case GapChange::grows:
      return "grows";
    case GapChange::shrinks:
      return "shrinks";
    case GapChange::changes_sign:
      return "changes sign";
    case GapChange::cannot_tell:
      return "cannot tell";
  }
  return "";
}

std::vector<WidthPoint> points_of_series(const Comparison& comparison, std::string_view series) {
  std::vector<WidthPoint> points;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    if (plan.series != series) continue;
    const SummaryRow* const row = comparison.row(plan.name);
    points.push_back({.row = plan.name,
                      .width = plan.width,
                      .size = plan.block_parameters,
                      .mean = row == nullptr ? std::nullopt : row->mean,
                      .learning_rate = plan.learning_rate});
  }
  std::sort(points.begin(), points.end(),
            [](const WidthPoint& one, const WidthPoint& other) { return one.width < other.width; });
  for (WidthPoint& point : points) {
    const TuningTrial* const own = trial(comparison, point.row, point.learning_rate);
    const TuningTrial* const first = trial(comparison, point.row, points.front().learning_rate);
    if (own == nullptr || first == nullptr || !own->value || !first->value) continue;
    point.first_rate_costs = *first->value - *own->value;
  }
  return points;
}

std::vector<WidthSeries> width_series(const Comparison& comparison) {
  std::vector<WidthSeries> all;
  std::vector<GapTest> tests;
  std::set<std::string> seen;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    if (plan.series.empty() || !seen.insert(plan.series).second) continue;
    WidthSeries series{
        .name = plan.series, .title = plan.family_title(), .points = points_of_series(comparison, plan.series)};
    std::vector<double> sizes;
    for (const WidthPoint& point : series.points) sizes.push_back(static_cast<double>(point.size));
    const Values values = values_of_series(comparison, series.points, false);
    series.seeds = std::ssize(values);
    if (series.points.size() < fewest_widths)
      series.why_no_law = "three numbers are fitted, so it takes three widths at least";
    else if (values.empty())
      series.why_no_law = "no seed finished at every width";
    else
      series.law = fitted_law(sizes, values, comparison.task.decisive().min);
    tests.emplace_back();
    const Values differences = values_of_series(comparison, series.points, true);
    if (plan.series != comparison.baseline_family() && !differences.empty() && series.points.size() > 1) {
      double of_values = 0;
      for (const std::vector<double>& of_seed : values)
        for (const double value : of_seed) of_values = std::max(of_values, std::abs(value));
      tests.back() = gap_test(sizes, differences, of_values);
      series.gap = tests.back().gap;
    }
    all.push_back(std::move(series));
  }
  decide_gaps(all, tests);
  return all;
}

}  // namespace cogwheel::compare
