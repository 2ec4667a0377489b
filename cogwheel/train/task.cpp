#include "cogwheel/train/task.h"

#include <torch/nn/module.h>

#include "cogwheel/nn/new_parameter.h"

namespace cogwheel {

std::int64_t parameter_count(const Task& task, const ModelOptions& options) {
  const PlaceParameters nowhere(at::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : task.make_model(options)->parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<torch::nn::Module> load_model(const Task& task, const RunConfig& config, const RunFolder& folder) {
  auto model = task.make_model(config.model);
  load_weights_of(*model, config, folder);
  return model;
}

}  // namespace cogwheel
