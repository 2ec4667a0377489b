// What several labs compute of numbers: dot products, a straight line through points, means with their error.
#pragma once
#include <cstdint>
#include <vector>

namespace cogwheel::labs {

// Eight partial sums, which a compiler turns into vectors; the order is fixed, and so are the bits.
inline double dot(const double* left, const double* right, std::int64_t width) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= width; i += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += left[i + lane] * right[i + lane];
  for (int lane = 0; i < width; ++i, ++lane) sums[lane] += left[i] * right[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

struct StraightLine {
  double slope = 0, offset = 0;  // y = slope · x + offset
};

// Least squares; `weights` counts how much each point does. At least two different x.
StraightLine fit_line(const std::vector<double>& x, const std::vector<double>& y, std::vector<double> weights = {});

struct Mean {
  double value = 0, error = 0;  // standard error, 0 of a single number
};
Mean mean_of(const std::vector<double>& values);

}  // namespace cogwheel::labs
