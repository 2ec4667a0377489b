// An executor on OpenMP, for programs without libtorch. Header-only, so that the kernel library itself links no OpenMP
// runtime: a program that includes this compiles and links with -fopenmp.
#pragma once
#ifndef _OPENMP
#error "cogwheel/core/openmp_executor.h: compile and link with -fopenmp"
#endif
#include <omp.h>

#include "cogwheel/core/parallel.h"

namespace cogwheel {

class OpenMPExecutor final : public Executor {
 public:
  int workers() const override { return omp_get_max_threads(); }
  void run(std::int64_t tasks, const Task& task) const override {
#pragma omp parallel for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < tasks; ++index) task(index, omp_get_thread_num());
  }
};

}  // namespace cogwheel
