#include "cogwheel/cli/wait_policy.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace cogwheel::cli {
namespace {

// The average number of other running or runnable threads over 20 ms; 0 where the system does not tell.
double busy_threads() {
  constexpr int samples = 5;
  double sum = 0;
  for (int sample = 0; sample < samples; ++sample) {
    std::string load;
    int running = 1;  // this one
    std::ifstream("/proc/loadavg") >> load >> load >> load >> running;
    sum += running - 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  return sum / samples;
}

}  // namespace

void sleep_where_the_machine_is_busy(char** argv) {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"})
    if (std::getenv(chosen) != nullptr) return;
  if (busy_threads() < 0.5) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  // Under the name by which it was called, because the environment's Python lies beside that.
  ::execv(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv);
}

}  // namespace cogwheel::cli
