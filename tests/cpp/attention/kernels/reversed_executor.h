// Runs tasks backwards and pretends to have many workers: results must not depend on either.
#pragma once
#include "cogwheel/core/parallel.h"

namespace cogwheel {

class ReversedExecutor final : public Executor {
 public:
  explicit ReversedExecutor(int workers) : workers_(workers) {}
  int workers() const override { return workers_; }
  void run(std::int64_t tasks, const Task& task) const override {
    for (std::int64_t index = tasks - 1; index >= 0; --index) task(index, static_cast<int>(index % workers_));
  }

 private:
  int workers_;
};

}  // namespace cogwheel
