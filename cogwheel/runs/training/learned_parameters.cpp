#include "cogwheel/runs/training/learned_parameters.h"

#include <fnmatch.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::runs {
namespace {

// "layers.*.feed_forward" names what is in it.
bool is_in(const std::string& pattern, const std::string& parameter) {
  return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0 ||
         ::fnmatch((pattern + ".*").c_str(), parameter.c_str(), 0) == 0;
}

// Nobody looks for a norm of layer 17 among hundreds.
std::string some_names(const torch::nn::Module& model, const std::string& pattern) {
  std::vector<std::string> known;
  for (const auto& parameter : model.named_parameters()) known.push_back(parameter.key());
  const std::string wanted = "a part of the model or a pattern, such as ";
  return wanted + (nearest_names(pattern, known).empty() ? known.front() + " or layers.*.feed_forward"
                                                         : expected_names(pattern, known));
}

}  // namespace

std::size_t phase_at(const std::vector<Phase>& phases, std::int64_t step) {
  const auto later =
      std::find_if(phases.begin(), phases.end(), [&](const Phase& phase) { return phase.first_step > step; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, later - phases.begin()) - 1);
}

std::vector<LearnedParameter> learned_parameters(const torch::nn::Module& model, const TrainingOptions& training,
                                                 const Task& task) {
  const auto parameters = model.named_parameters();
  for (const std::string& pattern : training.frozen)
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const auto& parameter) { return is_in(pattern, parameter.key()); }))
      throw UsageError(expected_got("training.frozen", some_names(model, pattern), pattern));
  const std::vector<Phase> phases = task.phases();
  std::vector<LearnedParameter> learned;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter.key();
    if (std::any_of(training.frozen.begin(), training.frozen.end(),
                    [&](const std::string& pattern) { return is_in(pattern, name); }))
      continue;
    const auto first =
        std::find_if(phases.begin(), phases.end(), [&](const Phase& phase) { return task.learns(model, phase, name); });
    if (first != phases.end() && first->first_step < training.steps)
      learned.push_back({name, parameter.value(), first->first_step});
  }
  if (std::none_of(learned.begin(), learned.end(), [](const LearnedParameter& each) { return each.first_step == 0; }))
    throw UsageError(expected_got("training.frozen", "parameters left to learn from the first step on", "none"));
  return learned;
}

void expect_learned(const RunConfig& config, const Task& task) {
  const nn::PlaceParameters nowhere(at::kMeta);
  learned_parameters(*make_model(config.model), config.training, task);
}

void require_gradients(const torch::nn::Module& model, const std::vector<LearnedParameter>& learned,
                       std::int64_t step) {
  std::set<const c10::TensorImpl*> now;
  for (const LearnedParameter& each : learned)
    if (each.first_step <= step) now.insert(each.value.unsafeGetTensorImpl());
  for (const at::Tensor& parameter : model.parameters())
    parameter.set_requires_grad(now.contains(parameter.unsafeGetTensorImpl()));
}

}  // namespace cogwheel::runs
