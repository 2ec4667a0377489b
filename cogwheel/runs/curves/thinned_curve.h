// Fewer points of a curve that look the same.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace cogwheel::runs {

// The indices of at most 2 · `parts` + 2 of the values that are numbers, in order: of each part of equal length the
// lowest and the highest, so that no peak is lost, and the first and the last.
inline std::vector<std::size_t> thinned(const std::vector<double>& values, std::size_t parts) {
  std::vector<std::size_t> there, kept;
  for (std::size_t index = 0; index < values.size(); ++index)
    if (std::isfinite(values[index])) there.push_back(index);
  if (there.size() <= 2 * parts) return there;
  kept.push_back(there.front());
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = there.begin() + static_cast<std::ptrdiff_t>(part * there.size() / parts),
               end = there.begin() + static_cast<std::ptrdiff_t>((part + 1) * there.size() / parts);
    const auto [low, high] =
        std::minmax_element(begin, end, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    for (const std::size_t index : {std::min(*low, *high), std::max(*low, *high)})
      if (index != kept.back()) kept.push_back(index);
  }
  if (kept.back() != there.back()) kept.push_back(there.back());
  return kept;
}

}  // namespace cogwheel::runs
