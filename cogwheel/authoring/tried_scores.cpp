#include "cogwheel/authoring/tried_scores.h"

#include <algorithm>
#include <cmath>

namespace cogwheel {
namespace {

// 0, and both signs of what is at most `most`, once each, in order of size.
std::vector<double> signed_sizes(std::vector<double> sizes, double most) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<double> scores{0};
  for (const double size : sizes)
    if (size > 0 && size <= most) scores.insert(scores.end(), {size, -size});
  return scores;
}

}  // namespace

std::vector<double> tried_scores(double most) {
  std::vector<double> sizes{most};
  for (int i = 1; i <= 1000; ++i) sizes.push_back(i / 100.0);
  for (int i = 1; i <= 100; ++i) sizes.push_back(i);
  for (int exponent = -30; exponent < 4; ++exponent)
    for (const double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      // Rounded once, as whoever writes 3e-7 in a formula has it.
      sizes.push_back(exponent < 0 ? digit / std::pow(10.0, -exponent) : digit * std::pow(10.0, exponent));
    }
  return signed_sizes(std::move(sizes), most);
}

std::vector<double> scores_between_kinks(double most) {
  std::vector<double> sizes{most};
  for (int step = 0; step < 16 * 7; ++step) sizes.push_back(1.0137e-3 * std::pow(10.0, step / 16.0));
  return signed_sizes(std::move(sizes), most);
}

}  // namespace cogwheel
