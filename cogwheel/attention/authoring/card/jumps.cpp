#include "cogwheel/attention/authoring/card/jumps.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cogwheel::authoring {
namespace {

// The values on one side at ever smaller distances, and the changes from one to the next.
struct Approach {
  std::array<double, 4> value;
  std::array<double, 3> move;

  Approach(const std::function<double(double)>& function, double at, double side) {
    constexpr std::array distances{1e-5, 1e-8, 1e-11, 1e-14};
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] = function(at + side * distances[i] * std::max(1.0, std::abs(at)));
    for (std::size_t i = 0; i < move.size(); ++i) move[i] = std::abs(value[i + 1] - value[i]);
  }

  bool is_finite() const {
    return std::all_of(value.begin(), value.end(), [](double x) { return std::isfinite(x); });
  }
  // Towards a limit, each step changes a function by less; a logarithm changes by the same, a pole by more.
  bool grows() const {
    return move[0] > 0 && move[1] > 0.5 * move[0] && move[2] > 0.5 * move[1] &&
           std::abs(value[3]) > std::abs(value[2]) && std::abs(value[2]) > std::abs(value[1]) &&
           move[2] > 1e-6 * std::abs(value[3]);
  }
};

// Interval ends that are not round numbers: a jump at an end would be seen from one side only.
std::vector<double> interval_ends(double from, double to) {
  const double finest = std::min(1.0 / 64, (to - from) / 1024.37);
  std::vector<double> ends;
  for (double x = from + 0.17 * finest; x < to; x += std::max(finest, (std::abs(x) - 16) / 64.0137)) ends.push_back(x);
  return ends;
}

double min_width(double at) { return std::max(1e-15, 4e-16 * std::abs(at)); }

// Where |function| is largest between two places, by ternary search, as long as it grows: towards a pole, even one that
// is the same on both sides.
double towards_pole(const std::function<double(double)>& function, double low, double high) {
  double largest = std::max(std::abs(function(low)), std::abs(function(high)));
  while (high - low > min_width(low)) {
    double seen = 0;
    for (int step = 0; step < 12 && high - low > min_width(low); ++step) {
      const double third = (high - low) / 3, left = std::abs(function(low + third)),
                   right = std::abs(function(high - third));
      if (!std::isfinite(left) || !std::isfinite(right)) return std::isfinite(left) ? high - third : low + third;
      (left < right ? low : high) = left < right ? low + third : high - third;
      seen = std::max({seen, left, right});
    }
    if (seen <= 1.001 * largest) break;
    largest = seen;
  }
  return low + (high - low) / 2;
}

// Where the function changes most, by bisection.
double towards_jump(const std::function<double(double)>& function, double low, double high) {
  double at_low = function(low), at_high = function(high);
  while (high - low > min_width(low)) {
    const double middle = low + (high - low) / 2, at_middle = function(middle);
    if (!std::isfinite(at_middle)) return middle;
    if (std::abs(at_middle - at_low) > std::abs(at_high - at_middle))
      high = middle, at_high = at_middle;
    else
      low = middle, at_low = at_middle;
  }
  return low + (high - low) / 2;
}

}  // namespace

std::optional<Jump> jump_at(const std::function<double(double)>& function, double at) {
  const Approach left(function, at, -1), right(function, at, 1);
  if (!left.is_finite() || !right.is_finite()) return std::nullopt;
  const double before = left.value[3], after = right.value[3];
  if (left.grows() || right.grows()) return Jump{.at = at, .before = before, .after = after, .is_pole = true};
  double size = std::max({1e-294, std::abs(before), std::abs(after)});  // smaller numbers lose digits
  for (const double aside : {-0.1, 0.1})
    if (const double value = std::abs(function(at + aside * std::max(1.0, std::abs(at)))); std::isfinite(value))
      size = std::max(size, value);
  const double height = std::abs(after - before);
  // If it changes as much nearby, it is steep and not a jump.
  if (height <= 1e-6 * size || height <= 10 * (left.move[2] + right.move[2])) return std::nullopt;
  return Jump{.at = at, .before = before, .after = after};
}

std::vector<Jump> find_jumps(const std::function<double(double)>& function, double from, double to) {
  const std::vector<double> ends = interval_ends(from, to);
  std::vector<Jump> jumps;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    if (!std::isfinite(function(ends[i])) || !std::isfinite(function(ends[i + 1]))) continue;
    const double jump = towards_jump(function, ends[i], ends[i + 1]),
                 pole = towards_pole(function, ends[i], ends[i + 1]);
    if (const auto found = jump_at(function, jump))
      jumps.push_back(*found);
    else if (const auto other = jump_at(function, pole); other && other->is_pole)
      jumps.push_back(*other);
  }
  std::stable_sort(jumps.begin(), jumps.end(),
                   [](const Jump& a, const Jump& b) { return std::abs(a.at) < std::abs(b.at); });
  return jumps;
}

}  // namespace cogwheel::authoring
