#include "cogwheel/compare/statistics/paired_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cogwheel/compare/statistics/student_t.h"

namespace cogwheel::compare {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_error(std::span<const double> values) {
  const double mean = mean_of(values), count = static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (count - 1) / count);
}

}  // namespace

double rounding_of(double largest) { return 4 * std::numeric_limits<double>::epsilon() * std::abs(largest); }

bool has_spread(std::span<const double> values, double rounding) {
  if (values.size() < 2) return false;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low > rounding;
}

Estimate estimate_mean(std::span<const double> values, double confidence, double rounding) {
  Estimate estimate{.mean = mean_of(values), .interval = {}};
  if (has_spread(values, rounding))
    estimate.interval = student_t_quantile(confidence, static_cast<double>(values.size() - 1)) * standard_error(values);
  return estimate;
}

std::optional<double> paired_p_value(std::span<const double> differences, double rounding) {
  if (!has_spread(differences, rounding)) return std::nullopt;
  return student_t_two_sided_p(mean_of(differences) / standard_error(differences),
                               static_cast<double>(differences.size() - 1));
}

std::vector<HolmStep> holm(std::span<const double> p_values) {
  const std::size_t count = p_values.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t left, std::size_t right) { return p_values[left] < p_values[right]; });

  std::vector<HolmStep> steps(count);
  double largest = 0, confidence = 0;
  bool failed = false;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const double divisor = static_cast<double>(count - rank);
    largest = std::max(largest, std::min(1.0, p_values[order[rank]] * divisor));
    if (!failed) confidence = 1 - significance_level / divisor;
    failed = failed || largest >= significance_level;
    steps[order[rank]] = {.p_adjusted = largest, .confidence = confidence};
  }
  return steps;
}

}  // namespace cogwheel::compare
