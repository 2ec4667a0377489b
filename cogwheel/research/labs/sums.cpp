#include "cogwheel/research/labs/sums.h"

#include <cmath>

namespace cogwheel::labs {

StraightLine fit_line(const std::vector<double>& x, const std::vector<double>& y, std::vector<double> weights) {
  weights.resize(x.size(), 1);
  double total = 0, mean_x = 0, mean_y = 0, covariance = 0, variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    total += weights[i], mean_x += weights[i] * x[i], mean_y += weights[i] * y[i];
  mean_x /= total, mean_y /= total;
  for (std::size_t i = 0; i < x.size(); ++i) {
    covariance += weights[i] * (x[i] - mean_x) * (y[i] - mean_y);
    variance += weights[i] * (x[i] - mean_x) * (x[i] - mean_x);
  }
  const double slope = covariance / variance;
  return {slope, mean_y - slope * mean_x};
}

Mean mean_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() > 1 ? std::sqrt(squares / (count - 1) / count) : 0};
}

}  // namespace cogwheel::labs
