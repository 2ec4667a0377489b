// Seconds that pass, of whatever a program waits for.
#pragma once
#include <chrono>

namespace cogwheel {

using WallClock = std::chrono::steady_clock;

inline double seconds_since(WallClock::time_point start) {
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

}  // namespace cogwheel
