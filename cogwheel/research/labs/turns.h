// Times of works that take turns, so that what else the machine does slows all of them alike.
#pragma once
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace cogwheel::labs {

// What passes, or what the processor spends on this thread: the second is blind to what else runs, and to other threads
// that a work has.
enum class Clock { wall, thread };

inline double seconds_now(Clock clock) {
  if (clock == Clock::wall)
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The fastest of `repeats` rounds, in seconds, after one that finds cold memory; of more, until `least_seconds` are
// over.
inline std::vector<double> fastest_in_turns(const std::vector<std::function<void()>>& works, std::int64_t repeats,
                                            Clock clock = Clock::wall, double least_seconds = 0) {
  std::vector<double> best(works.size(), std::numeric_limits<double>::infinity());
  double spent = 0;
  for (std::int64_t round = 0; round <= repeats || spent < least_seconds; ++round)
    for (std::size_t index = 0; index < works.size(); ++index) {
      const double begin = seconds_now(clock);
      works[index]();
      const double seconds = seconds_now(clock) - begin;
      spent += seconds;
      if (round > 0) best[index] = std::min(best[index], seconds);
    }
  return best;
}

}  // namespace cogwheel::labs
