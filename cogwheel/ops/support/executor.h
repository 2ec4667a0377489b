// The executor on libtorch's own pool: one pool and one OpenMP runtime in a process.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "cogwheel/core/parallel.h"

namespace cogwheel::ops {

class TorchExecutor final : public Executor {
 public:
  int workers() const override { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

  void run(std::int64_t tasks, const Task& task) const override {
    const std::int64_t used = std::min<std::int64_t>(workers(), tasks);
    std::atomic<std::int64_t> next = 0;
    // parallel_for assigns equal shares beforehand; tasks differ in length, so each worker takes the next one instead.
    at::parallel_for(0, used, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t worker = begin; worker < end; ++worker)
        for (std::int64_t index; (index = next.fetch_add(1)) < tasks;) task(index, static_cast<int>(worker));
    });
  }
};

}  // namespace cogwheel::ops
