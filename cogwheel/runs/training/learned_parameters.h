// Which parameters of a model a run changes, and from which step on.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

struct LearnedParameter {
  std::string name;
  at::Tensor value;
  std::int64_t first_step = 0;  // the steps before leave it as it is
};

// All but those that training.frozen names, each from the first phase of the task on that learns it; none where that is
// beyond the last step. Throws UsageError for a pattern that names no parameter, and where nothing is left to learn.
std::vector<LearnedParameter> learned_parameters(const torch::nn::Module& model, const TrainingOptions& training,
                                                 const Task& task);

// The same refusals, of a completed configuration, before there is a model.
void expect_learned(const RunConfig& config, const Task& task);

// The phase of a step, counted from 0: an index of Task::phases.
std::size_t phase_at(const std::vector<Phase>& phases, std::int64_t step);

// Only those that a step changes have gradients then.
void require_gradients(const torch::nn::Module& model, const std::vector<LearnedParameter>& learned, std::int64_t step);

}  // namespace cogwheel::runs
