// Pearson's correlation with an interval.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace cogwheel::inspect {

struct Correlation {
  double value = 0, low = 0, high = 0;  // the interval of 95 %, by Fisher's z; NaN where nothing varies
};

// `x` and `y` are of one size, 4 or more.
inline Correlation correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (std::size_t index = 0; index < x.size(); ++index) mean_x += x[index] / count, mean_y += y[index] / count;
  double both = 0, of_x = 0, of_y = 0;
  for (std::size_t index = 0; index < x.size(); ++index) {
    const double dx = x[index] - mean_x, dy = y[index] - mean_y;
    both += dx * dy, of_x += dx * dx, of_y += dy * dy;
  }
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  if (!(of_x > 0) || !(of_y > 0)) return {nothing, nothing, nothing};
  const double r = std::clamp(both / std::sqrt(of_x * of_y), -1., 1.);
  constexpr double deviations = 1.959963984540054;  // 97.5 % of a normal distribution lie below
  const double half = deviations / std::sqrt(count - 3);
  return {r, std::tanh(std::atanh(r) - half), std::tanh(std::atanh(r) + half)};
}

}  // namespace cogwheel::inspect
