// The caller owns the threads: a kernel receives an executor and never starts a thread itself.
#pragma once
#include <cstdint>
#include <functional>

namespace cogwheel {

// Runs task(index, worker) once for every index in [0, tasks), in any order, on any worker. Two tasks that run at the
// same time have different `worker` in [0, workers()), so that a worker can own a workspace.
class Executor {
 public:
  using Task = std::function<void(std::int64_t index, int worker)>;
  virtual ~Executor() = default;
  virtual int workers() const = 0;
  virtual void run(std::int64_t tasks, const Task& task) const = 0;
};

class SerialExecutor final : public Executor {
 public:
  int workers() const override { return 1; }
  void run(std::int64_t tasks, const Task& task) const override {
    for (std::int64_t index = 0; index < tasks; ++index) task(index, 0);
  }
};

}  // namespace cogwheel
