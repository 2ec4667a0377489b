#include "cogwheel/runs/forecast/step_memory.h"

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/forecast/live_tensors.h"
#include "cogwheel/runs/forecast/meta_operators.h"

namespace cogwheel::runs {
namespace {

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

struct PassMemory {
  std::int64_t gradients = 0, logits = 0, activations = 0;  // at the largest moment of a slice
};

// `held`: the sums of gradients are there before the slice is.
PassMemory pass_memory(const RunConfig& config, const Task& task, bool held) {
  const MetaOperators operators;
  const nn::PlaceParameters nowhere(at::kMeta);
  const std::shared_ptr<torch::nn::Module> model = make_model(config.model);
  const TrainingOptions slice = one_slice(config.training);
  const Batch batch = task.batch(*model, slice, {});
  const std::vector<at::Tensor> weights = model->parameters();
  LiveTensors live;
  for (const at::Tensor& weight : weights) {
    live.leave_out(weight);
    if (!held) continue;
    weight.mutable_grad() = at::empty_like(weight.detach());
    live.leave_out(weight.grad());
  }
  {
    const nn::BFloat16Products products(slice.precision == "bf16");
    task.loss(*model, batch, slice.seed).backward();
  }
  std::unordered_set<const c10::StorageImpl*> gradients;
  if (!held)
    for (const at::Tensor& weight : weights)
      if (weight.grad().defined()) gradients.insert(weight.grad().storage().unsafeGetStorageImpl());
  const std::int64_t vocabulary = common(config.model).vocabulary_or_none();
  PassMemory memory;
  for (const LiveTensors::Made& each : live.at_peak()) {
    std::int64_t& kind = gradients.contains(each.storage)               ? memory.gradients
                         : vocabulary > 1 && each.columns == vocabulary ? memory.logits
                                                                        : memory.activations;
    kind += each.bytes;
  }
  return memory;
}

}  // namespace

std::int64_t StepMemory::bytes() const {
  std::int64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::int64_t slices_of(const TrainingOptions&) { return 1; }

std::int64_t gradient_buffers(std::int64_t slices) {
  return std::max<std::int64_t>(1, std::bit_width(static_cast<std::uint64_t>(slices)) - 1);
}

TrainingOptions one_slice(TrainingOptions training) {
  training.batch = std::max<std::int64_t>(1, training.batch / slices_of(training));
  return training;
}

StepMemory step_memory(const RunConfig& config, const Task& task) {
  const std::int64_t slices = slices_of(config.training), buffers = gradient_buffers(slices);
  std::int64_t weights = 0;
  {
    const nn::PlaceParameters nowhere(at::kMeta);
    weights = bytes_of(make_model(config.model)->parameters());
  }
  const PassMemory pass = pass_memory(config, task, slices > 1);
  StepMemory memory;
  const auto add = [&](const char* name, std::string reason, std::int64_t bytes) {
    if (bytes > 0) memory.parts.push_back({name, std::move(reason), bytes});
  };
  add("weights", "four bytes each", weights);
  add("moments", "two of AdamW for each weight", 2 * weights);
  if (config.training.ema > 0) add("average of the weights", "training.ema", weights);
  add("gradients",
      slices > 1 ? fmt::format("{} buffers for the sum over {} slices", buffers, slices)
                 : "those that are there when most memory is used",
      slices > 1 ? buffers * weights : pass.gradients);
  add("activations of a slice", "what the backward pass reads, and what it makes", pass.activations);
  add("logits of a slice", "with their gradient", pass.logits);
  return memory;
}

}  // namespace cogwheel::runs
