// Times of works that take turns, so that what else the machine does slows all of them alike.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace cogwheel::labs {

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fastest of `repeats` rounds, in seconds, after one that finds cold memory; of more, until `least_seconds` are
// over.
inline std::vector<double> fastest_in_turns(const std::vector<std::function<void()>>& works, std::int64_t repeats,
                                            double least_seconds = 0) {
  std::vector<double> best(works.size(), std::numeric_limits<double>::infinity());
  double spent = 0;
  for (std::int64_t round = 0; round <= repeats || spent < least_seconds; ++round)
    for (std::size_t index = 0; index < works.size(); ++index) {
      const double seconds = seconds_of(works[index]);
      spent += seconds;
      if (round > 0) best[index] = std::min(best[index], seconds);
    }
  return best;
}

}  // namespace cogwheel::labs
