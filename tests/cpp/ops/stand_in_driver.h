// What stands in for NVIDIA's driver in tests: it loads kernels and takes launches, and keeps what it was given. How
// many parameters a kernel has and of which sizes it reads from the kernel's image itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cogwheel::stand_in {

struct Launched {
  std::string kernel;
  unsigned programs, threads, shared_bytes;
  void* stream;
  std::vector<std::string> arguments;  // their bytes, as many as the parameter has
};

struct State {
  int capability = 90;
  int shared_bytes = 227 << 10;
  int refused = 0;      // the error of the next launch
  int used_device = 0;  // by the thread; -1: it has no context
  int contexts_made = 0;
  std::vector<Launched> launched = {};
  std::vector<unsigned> shared_bytes_asked = {};
};

}  // namespace cogwheel::stand_in

extern "C" cogwheel::stand_in::State* stand_in_state();
