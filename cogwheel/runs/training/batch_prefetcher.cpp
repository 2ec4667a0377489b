#include "cogwheel/runs/training/batch_prefetcher.h"

#include <exception>
#include <utility>

#include "cogwheel/runs/batch.h"

namespace cogwheel::runs {

struct BatchPrefetcher::Made {
  DataPlace place;
  Batch batch;
};

BatchPrefetcher::BatchPrefetcher(std::shared_ptr<const Task> task) : task_(std::move(task)) {}
BatchPrefetcher::~BatchPrefetcher() = default;

Batch BatchPrefetcher::take(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place) {
  const std::unique_ptr<Made> made = std::move(made_);
  if (made && made->place == place) return made->batch;
  return task_->batch(model, training, place);
}

void BatchPrefetcher::prefetch(const torch::nn::Module& model, const TrainingOptions& training,
                               const DataPlace& place) {
  made_.reset();
  try {
    made_ = std::make_unique<Made>(Made{place, task_->batch(model, training, place)});
    if (at::Device(training.device).is_cuda()) made_->batch = pinned(made_->batch);
  } catch (const std::exception&) {
    // Without a batch take() makes it; one that cannot be pinned is copied while the host waits.
  }
}

}  // namespace cogwheel::runs
