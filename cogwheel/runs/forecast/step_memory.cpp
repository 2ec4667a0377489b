#include "cogwheel/runs/forecast/step_memory.h"

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_set>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/nn/ranks/divided_parameter.h"
#include "cogwheel/nn/recomputed_blocks.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/forecast/live_tensors.h"
#include "cogwheel/runs/forecast/meta_operators.h"
#include "cogwheel/runs/training/learned_parameters.h"
#include "cogwheel/runs/training/muon.h"

namespace cogwheel::runs {
namespace {

struct WeightMemory {
  std::int64_t weights = 0, learned = 0, moments = 0;
  std::vector<DividedBytes> divided = {};
};

WeightMemory weight_memory(const RunConfig& config, const Task& task) {
  const nn::PlaceParameters nowhere(at::kMeta);
  const std::shared_ptr<torch::nn::Module> model = make_model(config.model);
  const std::set<std::string> hidden =
      config.training.optimizer == "muon" ? hidden_matrices(*model) : std::set<std::string>();
  WeightMemory memory;
  for (const at::Tensor& parameter : model->parameters())
    memory.weights += static_cast<std::int64_t>(parameter.nbytes());
  if (const auto* const divides = dynamic_cast<const nn::DividesParameters*>(model.get()))
    for (const nn::DividedParameter& each : divides->divided_parameters()) {
      std::int64_t divisor = 0;
      for (const std::int64_t part : each.parts) divisor = std::gcd(divisor, part);
      memory.divided.push_back({static_cast<std::int64_t>(each.value.nbytes()), divisor});
    }
  for (const LearnedParameter& each : learned_parameters(*model, config.training, task)) {
    const auto bytes = static_cast<std::int64_t>(each.value.nbytes());
    memory.learned += bytes;
    memory.moments += hidden.contains(each.name) ? bytes : 2 * bytes;
  }
  return memory;
}

// Items of most tasks differ in length, and so do their batches: the largest of the first ones.
Batch large_batch(const Task& task, const torch::nn::Module& model, const TrainingOptions& training) {
  constexpr std::int64_t all = 64, few = 4;  // where the first few are alike, the others are too
  const auto size = [](const Batch& batch) {
    std::int64_t sum = 0;
    for (const at::Tensor* tensor : {&batch.inputs, &batch.source})
      if (tensor->defined()) sum += tensor->numel();
    return sum;
  };
  Batch largest = task.batch(model, training, {});
  bool alike = true;
  for (std::int64_t number = 1; number < std::min(training.steps, alike ? few : all); ++number) {
    Batch batch = task.batch(model, training, {number, number * training.batch});
    alike = alike && size(batch) == size(largest);
    if (size(batch) > size(largest)) largest = std::move(batch);
  }
  return largest;
}

struct PassMemory {
  std::int64_t gradients = 0, logits = 0, activations = 0;  // at the largest moment of a slice
  std::int64_t bytes() const { return gradients + logits + activations; }
};

// Of a step of one of the task's phases. `held`: the sums of gradients are there before the slice is.
PassMemory pass_memory(const RunConfig& config, const Task& task, const Phase& phase, bool held) {
  const MetaOperators operators;
  const nn::PlaceParameters nowhere(at::kMeta);
  const std::shared_ptr<torch::nn::Module> model = make_model(config.model);
  const TrainingOptions slice = one_slice(config.training);
  const Batch batch = large_batch(task, *model, slice);
  const std::vector<at::Tensor> weights = model->parameters();
  require_gradients(*model, learned_parameters(*model, config.training, task), phase.first_step);
  LiveTensors live;
  // Gradients that are there before the slice may be added to in place or make room for their sum.
  std::unordered_set<const c10::StorageImpl*> gradients;
  const auto note_gradients = [&] {
    for (const at::Tensor& weight : weights)
      if (weight.grad().defined()) gradients.insert(weight.grad().storage().unsafeGetStorageImpl());
  };
  for (const at::Tensor& weight : weights) {
    live.leave_out(weight);
    if (!held || !weight.requires_grad()) continue;
    weight.mutable_grad() = at::empty_like(weight.detach());
    live.take(weight.grad());
  }
  note_gradients();
  {
    const nn::BFloat16Products products(slice.precision == "bf16");
    const nn::RecomputedBlocks recomputed(slice.recompute);
    task.loss_in(phase, *model, batch, slice.seed).backward();
  }
  note_gradients();
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

// Of operators, and freed memory whose place nothing fits (cli/allocator.h keeps it): fitted to the peaks of steps of
// five models of 5 to 141 million parameters in float32 and bfloat16 on an AMD EPYC.
std::int64_t StepBytes::libraries() const {
  constexpr std::int64_t of_libraries = 64 << 20;
  constexpr double of_slice = 0.15;
  return of_libraries + static_cast<std::int64_t>(of_slice * static_cast<double>(activations + logits));
}

std::int64_t gradient_buffers(std::int64_t slices) {
  return std::max<std::int64_t>(1, std::bit_width(static_cast<std::uint64_t>(slices)) - 1);
}

TrainingOptions one_slice(TrainingOptions training) {
  training.batch = (training.batch + training.micro_batches - 1) / training.micro_batches;
  training.micro_batches = 1;
  return training;
}

StepMemory step_memory(const RunConfig& config, const Task& task) {
  const std::int64_t slices = config.training.micro_batches, buffers = gradient_buffers(slices);
  const WeightMemory of_weights = weight_memory(config, task);
  const std::int64_t weights = of_weights.weights;
  StepMemory memory;
  PassMemory pass;
  try {
    for (const Phase& phase : task.phases()) {
      if (phase.first_step >= config.training.steps) continue;
      const PassMemory of_phase = pass_memory(config, task, phase, slices > 1);
      if (of_phase.bytes() > pass.bytes()) pass = of_phase;
    }
  } catch (const c10::NotImplementedError& error) {
    // Its message begins with the operator's name, and ends with advice to who wrote it.
    const std::string message = one_line(error.what_without_backtrace());
    memory.unknown = message.substr(0, message.find(": ")) + " has no shapes without numbers";
    pass.gradients = of_weights.learned;
  }
  memory.learned = of_weights.learned;
  memory.divided = of_weights.divided;
  memory.held = {.weights = weights,
                 .moments = of_weights.moments,
                 .average = config.training.ema > 0 ? weights : 0,
                 .gradients = slices > 1 ? buffers * of_weights.learned : pass.gradients,
                 .activations = pass.activations,
                 .logits = pass.logits};
  const auto add = [&](const char* name, std::string reason, std::int64_t bytes) {
    if (bytes > 0) memory.parts.push_back({name, std::move(reason), bytes});
  };
  add("weights", "four bytes each", memory.held.weights);
  add("moments", config.training.optimizer == "muon" ? "one of Muon, two of AdamW" : "two of AdamW for each weight",
      memory.held.moments);
  add("average of the weights", "training.ema", memory.held.average);
  add("gradients",
      slices > 1 ? fmt::format("for the sum over {} slices, {} times the weights", slices, buffers)
                 : "those that are there when most memory is used",
      memory.held.gradients);
  add("activations of a slice", "what the backward pass reads, and what it makes", memory.held.activations);
  add("logits of a slice", "with their gradient", memory.held.logits);
  add("libraries and allocator", "64 MiB and 15 % of a slice, as measured on a few models", memory.held.libraries());
  return memory;
}

void expect_memory_for_step(const RunConfig& config, const Task& task) {
  const std::int64_t there = physical_memory_bytes();
  if (there == 0 || config.training.device != "cpu") return;
  const StepMemory memory = step_memory(config, task);
  if (memory.bytes() <= there) return;
  const auto largest = std::ranges::max_element(memory.parts, {}, &MemoryPart::bytes);
  throw Error(
      expected_got(fmt::format("memory for a step of {}", config.name),
                   fmt::format("{}, {} of them {} (training.micro_batches and training.recompute need less)",
                               pages::byte_size(memory.bytes()), pages::byte_size(largest->bytes), largest->name),
                   pages::byte_size(there)));
}

}  // namespace cogwheel::runs
