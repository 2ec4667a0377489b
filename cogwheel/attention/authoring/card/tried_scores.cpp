#include "cogwheel/attention/authoring/card/tried_scores.h"

#include <algorithm>
#include <cmath>

namespace cogwheel::authoring {
namespace {

// 0, and both signs of each size up to max_score, without duplicates, in order of size.
std::vector<double> signed_sizes(std::vector<double> sizes, double max_score) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<double> scores{0};
  for (const double size : sizes)
    if (size > 0 && size <= max_score) scores.insert(scores.end(), {size, -size});
  return scores;
}

}  // namespace

std::vector<double> tried_scores(double max_score) {
  std::vector<double> sizes{max_score};
  for (int i = 1; i <= 1000; ++i) sizes.push_back(i / 100.0);
  for (int i = 1; i <= 100; ++i) sizes.push_back(i);
  for (int exponent = -30; exponent < 4; ++exponent)
    for (const double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      // Rounded once, as 3e-7 in a formula is.
      sizes.push_back(exponent < 0 ? digit / std::pow(10.0, -exponent) : digit * std::pow(10.0, exponent));
    }
  return signed_sizes(std::move(sizes), max_score);
}

std::vector<double> scores_between_kinks(double max_score) {
  std::vector<double> sizes{max_score};
  for (int step = 0; step < 16 * 7; ++step) sizes.push_back(1.0137e-3 * std::pow(10.0, step / 16.0));
  return signed_sizes(std::move(sizes), max_score);
}

}  // namespace cogwheel::authoring
