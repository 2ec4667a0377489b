// A task that does as another does, but for what a test overrides.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

class DecoratedTask : public Task {
 public:
  explicit DecoratedTask(std::shared_ptr<const Task> task) : task_(std::move(task)) {}

  const TaskDescription& description() const override { return task_->description(); }
  DataFacts data(const ModelOptions& model, const TrainingOptions& training) const override {
    return task_->data(model, training);
  }
  RunConfig completed(RunConfig config) const override { return task_->completed(std::move(config)); }
  void initialize(torch::nn::Module& model, std::uint64_t seed) const override { task_->initialize(model, seed); }
  Batch batch(const torch::nn::Module& model, const TrainingOptions& training, const DataPlace& place) const override {
    return task_->batch(model, training, place);
  }
  at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const override {
    return task_->loss(model, batch, dropout_seed);
  }
  std::int64_t counted(const Batch& batch) const override { return task_->counted(batch); }
  MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                          nn::StatisticsOfHeads* heads) const override {
    return task_->evaluate(model, training, part, heads);
  }
  Inspection inspect(torch::nn::Module& model, std::uint64_t seed, const ThoroughInspection* thorough) const override {
    return task_->inspect(model, seed, thorough);
  }
  std::shared_ptr<const Task> limited(std::int64_t tokens) const override { return task_->limited(tokens); }
  std::shared_ptr<const Task> for_tuning() const override { return task_->for_tuning(); }

 private:
  std::shared_ptr<const Task> task_;
};

}  // namespace cogwheel::runs
