#include "cogwheel/authoring/jumps.h"

#include <cmath>

namespace cogwheel {

std::vector<Jump> find_jumps(const std::function<double(double)>& function, double from, double to) {
  constexpr int intervals = 1024;
  // Ends of intervals that are no round numbers: a jump at one would be seen from one side only.
  const double width = (to - from) / (intervals + 0.37), start = from + 0.17 * width;
  std::vector<Jump> jumps;
  for (int interval = 0; interval < intervals; ++interval) {
    double low = start + interval * width, high = low + width;
    double at_low = function(low), at_high = function(high);
    while (high - low > 1e-12) {
      const double middle = (low + high) / 2, at_middle = function(middle);
      if (std::abs(at_middle - at_low) > std::abs(at_high - at_middle))
        high = middle, at_high = at_middle;
      else
        low = middle, at_low = at_middle;
    }
    constexpr double aside = 1e-9;
    const double before = function(low - aside), after = function(high + aside);
    if (std::abs(after - before) > 1e-6 * (1 + std::abs(before) + std::abs(after)))
      jumps.push_back({.at = (low + high) / 2, .before = before, .after = after});
  }
  return jumps;
}

}  // namespace cogwheel
