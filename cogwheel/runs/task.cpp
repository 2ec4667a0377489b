#include "cogwheel/runs/task.h"

#include <torch/nn/module.h>

#include <stdexcept>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/model_entry.h"

namespace cogwheel::runs {

std::shared_ptr<torch::nn::Module> make_model(const ModelOptions& options) { return options.entry().make(options); }

std::int64_t parameter_count(const ModelOptions& options) {
  const nn::PlaceParameters nowhere(at::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : make_model(options)->parameters()) count += parameter.numel();
  return count;
}

std::int64_t block_parameter_count(const ModelOptions& options) {
  const nn::PlaceParameters nowhere(at::kMeta);
  std::int64_t count = 0;
  for (const auto& module : make_model(options)->modules())
    if (module->as<nn::TransformerBlockImpl>() != nullptr)
      for (const at::Tensor& parameter : module->parameters()) count += parameter.numel();
  return count;
}

bool Task::learns(const torch::nn::Module&, const Phase&, const std::string&) const { return true; }

at::Tensor Task::loss_in(const Phase&, torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const {
  return loss(model, batch, dropout_seed);
}

void Task::expect_shared(const ModelOptions&, std::int64_t context, std::int64_t tensor) const {
  for (const auto& [key, ranks] : {std::pair("parallel.context", context), {"parallel.tensor", tensor}})
    if (ranks > 1) throw UsageError(expected_got(key, "1 for the task " + description().name, std::to_string(ranks)));
}

std::int64_t Task::counted(const Batch& batch) const { return batch.inputs.size(0); }

void Task::expect_continuable(const std::string&) const {}

std::string Task::continued(torch::nn::Module&, const std::string&, std::uint64_t) const {
  throw std::logic_error(expected_got("task " + description().name, "one that continues texts", "another"));
}

std::string Task::measured_problems(const ModelOptions&, const TrainingOptions&) const { return {}; }

std::string Task::held_out_text(std::int64_t) const { return {}; }

NarrowingCost Task::narrowing_cost(torch::nn::Module&, const TrainingOptions&, const KeptNumbers&) const {
  throw UsageError(
      expected_got("evaluate: --weights, --cache, --sink", "none for the task " + description().name, "one"));
}

std::shared_ptr<torch::nn::Module> load_model(const RunConfig& config, const RunFolder& folder) {
  auto model = make_model(config.model);
  load_weights_of(*model, config, folder);
  return model;
}

}  // namespace cogwheel::runs
