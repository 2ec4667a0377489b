// The processor time of this thread: what others do with the processor meanwhile does not count.
#pragma once
#include <ctime>

namespace cogwheel {

inline double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace cogwheel
