// The batches of a run whose model is on another device than the CPU: each is made while the device works on the one
// before, for CUDA in pinned memory.
#pragma once
#include <memory>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

class BatchPrefetcher {
 public:
  explicit BatchPrefetcher(std::shared_ptr<const Task> task);
  ~BatchPrefetcher();

  // The batch of that place, made now if it was not prefetched.
  Batch take(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place);
  // Makes one that may be taken next, in the thread that reads all of the task's data. What fails will fail again, and
  // be told, when it is taken.
  void prefetch(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place);

 private:
  struct Made;

  std::shared_ptr<const Task> task_;
  std::unique_ptr<Made> made_;
};

}  // namespace cogwheel::runs
