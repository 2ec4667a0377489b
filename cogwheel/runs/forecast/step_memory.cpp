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
#include "cogwheel/nn/blocks/recomputed_blocks.h"
#include "cogwheel/nn/ranks/divided_parameter.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/forecast/live_tensors.h"
#include "cogwheel/runs/forecast/meta_operators.h"
#include "cogwheel/runs/training/learned_parameters.h"
#include "cogwheel/runs/training/made_gradients.h"
#include "cogwheel/runs/training/muon.h"

namespace cogwheel::runs {
namespace {

// Of operators, and freed memory whose place nothing fits (cli/allocator.h keeps it): fitted to the peaks of steps of
// models of 0.8 to 169 million parameters in float32 and bfloat16 on AMD EPYC and Intel Xeon.
constexpr std::int64_t of_libraries = 32 << 20, percent_of_slice = 12;

// All but the passes.
StepMemory memory_of_weights(const RunConfig& config, const Task& task) {
  const nn::PlaceParameters nowhere(at::kMeta);
  const std::shared_ptr<torch::nn::Module> model = make_model(config.model);
  const std::set<std::string> hidden =
      config.training.optimizer == "muon" ? hidden_matrices(*model) : std::set<std::string>();
  StepMemory memory;
  StepBytes& held = memory.held;
  for (const at::Tensor& parameter : model->parameters()) held.weights += static_cast<std::int64_t>(parameter.nbytes());
  if (config.training.ema > 0) held.average = held.weights;
  if (const auto* const divides = dynamic_cast<const nn::DividesParameters*>(model.get()))
    for (const nn::DividedParameter& each : divides->divided_parameters()) {
      std::int64_t divisor = 0;
      for (const std::int64_t part : each.parts) divisor = std::gcd(divisor, part);
      memory.divided.push_back({static_cast<std::int64_t>(each.value.nbytes()), divisor});
    }
  for (const LearnedParameter& each : learned_parameters(*model, config.training, task)) {
    const auto bytes = static_cast<std::int64_t>(each.value.nbytes());
    held.learned += bytes;
    held.largest = std::max(held.largest, bytes);
    held.moments += hidden.contains(each.name) ? bytes : 2 * bytes;
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

// Of a step of one of the task's phases.
std::vector<PassMoment> pass_moments(const RunConfig& config, const Task& task, const Phase& phase) {
  const MetaOperators operators;
  const nn::PlaceParameters nowhere(at::kMeta);
  const std::shared_ptr<torch::nn::Module> model = make_model(config.model);
  const TrainingOptions slice = one_slice(config.training);
  const Batch batch = large_batch(task, *model, slice);
  require_gradients(*model, learned_parameters(*model, config.training, task), phase.first_step);
  LiveTensors live;
  MadeGradients made_gradients;
  struct Moment {
    std::int64_t made;
    std::vector<LiveTensors::Made> alive;
  };
  std::vector<Moment> moments;
  std::unordered_set<const c10::StorageImpl*> gradients;
  std::int64_t made = 0;
  for (const at::Tensor& weight : model->parameters()) {
    live.leave_out(weight);
    if (!weight.requires_grad()) continue;
    made_gradients.on_made(weight, [&, weight] {
      moments.push_back({made, live.at_peak()});
      made += static_cast<std::int64_t>(weight.nbytes());
      gradients.insert(weight.grad().storage().unsafeGetStorageImpl());
      weight.mutable_grad().reset();
      live.begin();
    });
  }
  {
    const nn::BFloat16Products products(slice.multiplies_bfloat16());
    const nn::RecomputedBlocks recomputed(slice.recompute);
    task.loss_in(phase, *model, batch, slice.seed).backward();
  }
  moments.push_back({made, live.at_peak()});
  const std::int64_t vocabulary = common(config.model).vocabulary_or_none();
  std::vector<PassMoment> pass;
  for (const Moment& each : moments) {
    PassMoment& moment = pass.emplace_back(PassMoment{.made = each.made});
    for (const LiveTensors::Made& tensor : each.alive) {
      std::int64_t& kind = gradients.contains(tensor.storage)               ? moment.unfinished
                           : vocabulary > 1 && tensor.columns == vocabulary ? moment.logits
                                                                            : moment.activations;
      kind += tensor.bytes;
    }
  }
  return pass;
}

}  // namespace

std::int64_t bytes_of_parts(const std::vector<MemoryPart>& parts) {
  std::int64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::int64_t StepMemory::bytes() const { return bytes_of_parts(parts); }

std::int64_t StepMemory::bytes_of(std::int64_t slices) const {
  return bytes_of_parts(memory_parts(held, largest_moment(held, {.sums = sums_that_wait(slices)}), slices));
}

std::int64_t StepBytes::libraries() const {
  std::int64_t slice = 0;
  for (const PassMoment& each : pass) slice = std::max(slice, each.activations + each.logits);
  return of_libraries + slice * percent_of_slice / 100;
}

LargestMoment largest_moment(const StepBytes& bytes, const GradientBuffers& buffers) {
  // After the last one: gradients alone, and a change of each owner's stretches, or of one tensor with the tensor
  // before (training/optimizer.h).
  LargestMoment largest{
      .gradients = bytes.learned / buffers.owners,
      .changes = buffers.owners > 1 ? bytes.learned / buffers.owners : 2 * bytes.largest,
  };
  const auto consider = [&](const LargestMoment& moment) {
    if (moment.bytes() > largest.bytes()) largest = moment;
  };
  for (const PassMoment& each : bytes.pass) {
    LargestMoment moment{.activations = each.activations, .logits = each.logits};
    if (buffers.sums > 0) {  // of the slice before the last one
      moment.gradients = (buffers.sums - 1) * bytes.learned + each.made + each.unfinished;
      consider(moment);
    }
    moment.gradients = buffers.sums * (bytes.learned - each.made) + each.made / buffers.owners + each.unfinished;
    // Of what has been made until then at most, twice: sent and received.
    moment.exchanged = std::min(buffers.exchanged, 2 * each.made);
    consider(moment);
  }
  return largest;
}

std::vector<MemoryPart> memory_parts(const StepBytes& held, const LargestMoment& largest, std::int64_t slices,
                                     std::string of_moments) {
  std::vector<MemoryPart> parts;
  const auto add = [&](const char* name, std::string reason, std::int64_t bytes) {
    if (bytes > 0) parts.push_back({name, std::move(reason), bytes});
  };
  add("weights", "four bytes each", held.weights);
  add("moments", std::move(of_moments), held.moments);
  add("average of the weights", "training.ema", held.average);
  add("gradients",
      slices > 1 ? fmt::format("for the sum over {} slices", slices) : "those that are there when most memory is used",
      largest.gradients);
  add("exchange of gradients", "buckets that are under way", largest.exchanged);
  add("change of weights", "of which a norm is reported", largest.changes);
  add("activations of a slice", "what the backward pass reads, and what it makes", largest.activations);
  add("logits of a slice", "with their gradient", largest.logits);
  add("libraries and allocator",
      fmt::format("{} and {} % of a slice, as measured on a few models", pages::byte_size(of_libraries),
                  percent_of_slice),
      held.libraries());
  return parts;
}

std::int64_t sums_that_wait(std::int64_t slices) { return std::bit_width(static_cast<std::uint64_t>(slices)) - 1; }

TrainingOptions one_slice(TrainingOptions training) {
  training.batch = (training.batch + training.micro_batches - 1) / training.micro_batches;
  training.micro_batches = 1;
  return training;
}

StepMemory step_memory(const RunConfig& config, const Task& task) {
  const std::int64_t slices = config.training.micro_batches;
  StepMemory memory = memory_of_weights(config, task);
  StepBytes& held = memory.held;
  try {
    for (const Phase& phase : task.phases()) {
      if (phase.first_step >= config.training.steps) continue;
      const std::vector<PassMoment> pass = pass_moments(config, task, phase);
      held.pass.insert(held.pass.end(), pass.begin(), pass.end());
    }
  } catch (const c10::NotImplementedError& error) {
    // Its message begins with the operator's name, and ends with advice to who wrote it.
    const std::string message = one_line(error.what_without_backtrace());
    memory.unknown = message.substr(0, message.find(": ")) + " has no shapes without numbers";
    held.pass = {PassMoment{}, {.made = held.learned}};
  }
  memory.parts =
      memory_parts(held, largest_moment(held, {.sums = sums_that_wait(slices)}), slices,
                   config.training.optimizer == "muon" ? "one of Muon, two of AdamW" : "two of AdamW for each weight");
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
