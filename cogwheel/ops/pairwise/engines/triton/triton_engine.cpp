// Kernels in Triton's language around row maps printed from their headers (attention/authoring/triton_text.h), which
// stand in python/cogwheel/device_kernels: compiled for GPUs, or interpreted on the CPU, where
// COGWHEEL_ENGINE=interpreted asks for it, so that what a GPU would compute is proved without one.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/attention/authoring/row_map_trace.h"
#include "cogwheel/attention/authoring/triton_text.h"
#include "cogwheel/attention/device/compiled_kernel.h"
#include "cogwheel/attention/device/cuda_driver.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/launch/device_launch.h"
#include "cogwheel/ops/pairwise/engines/triton/kernels_of_call.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/ops/support/sum_in_order.h"

namespace cogwheel::ops {
namespace {

void add_statistics(Launch& launch, const at::Tensor& statistics, bool argmax, bool minus_mean, bool of_mixture) {
  launch.add("found", statistics);
  launch.add_constant("MINUS_MEAN", minus_mean ? 1 : 0);
  launch.add_constant("OF_MIXTURE", of_mixture ? 1 : 0);
  launch.add_constant("ARGMAX", argmax ? 1 : 0);
}

void add_decoding(KernelsOfCall& kernels, const PairwiseCall& call, const PairwiseResults& results) {
  Launch decode = kernels.decode(), merge = kernels.merge();
  kernels.add_scores(decode);
  decode.add_heads("value", call.value);
  const std::int64_t parts = kernels.parts(), batch = call.query.size(0), heads = call.query.size(1),
                     queries = call.query.size(2);
  const at::Tensor of_shift = at::empty({parts, batch, heads, queries}, results.shift.options());
  const at::Tensor of_mass = at::empty_like(of_shift),
                   of_output = at::empty({parts, batch, heads, queries, call.value.size(3)}, of_shift.options());
  for (Launch* const each : {&decode, &merge}) {
    each->add("of_shift", of_shift);
    each->add("of_mass", of_mass);
    each->add("of_output", of_output);
  }
  merge.add_heads("output", results.output);
  merge.add("shift", results.shift);
  merge.add("mass", results.mass);
  kernels.then_twice(std::move(decode));
  kernels.then(std::move(merge));
}

void launch_forward(const PairwiseCall& call, const WantedOutputs& wanted, const PairwiseResults& results) {
  KernelsOfCall kernels(call, results.output);
  const auto of_rows = [&](std::string_view kernel) {
    Launch launch = kernels.of_rows(kernel);
    kernels.add_scores(launch);
    launch.add("shift", results.shift);
    launch.add("mass", results.mass);
    return launch;
  };
  if (are_identity(call.value)) {
    Launch launch = of_rows("forward");
    launch.add_constant("APART", 0);
    kernels.then(std::move(launch));
    Launch weights = of_rows("weights");
    weights.add_heads("output", results.output);
    kernels.then(std::move(weights));
  } else if (kernels.is_decoding()) {
    add_decoding(kernels, call, results);
  } else {
    Launch launch = of_rows("forward");
    launch.add_heads("value", call.value);
    launch.add_heads("output", results.output);
    kernels.then_twice(std::move(launch));
  }
  if (wanted.statistics) {
    Launch statistics = of_rows("statistics");
    add_statistics(statistics, results.statistics, wanted.argmax, false, false);
    kernels.then(std::move(statistics));
  }
  kernels.run();
}

void launch_mixture_statistics(const PairwiseCall& call, const MixtureMembers& members, bool argmax,
                               const at::Tensor& statistics) {
  KernelsOfCall kernels(call, statistics);
  Launch launch = kernels.of_rows("statistics", call.query.size(1) / call.options.sub_heads);
  kernels.add_scores(launch);
  launch.add("shift", members.shift);
  launch.add("mass", members.mass);
  if (members.coefficient) launch.add("coefficient", *members.coefficient);
  add_statistics(launch, statistics, argmax, !members.coefficient, true);
  kernels.then(std::move(launch));
  kernels.run();
}

void launch_backward(const PairwiseCall& call, const at::Tensor& gradient, const PairwiseSaved& saved,
                     const WantedGradients& wanted, GradientsOfCall& gradients) {
  KernelsOfCall kernels(call, gradient);
  const std::int64_t batch = call.query.size(0), heads = call.query.size(1), queries = call.query.size(2),
                     keys = call.key.size(2), head_dim = call.query.size(3), sub_heads = call.options.sub_heads;
  const bool has_values = !are_identity(call.value);
  const at::TensorOptions numbers = saved.shift.options();
  const at::Tensor inverse = at::empty_like(saved.shift), of_mass = at::empty_like(saved.shift),
                   of_scalars = at::empty({batch, heads, queries, kernels.theta().size(1)}, numbers);

  Launch rows = kernels.of_rows("backward_rows");
  rows.add_heads("output", saved.output);
  rows.add_heads("gradient", gradient);
  rows.add("shift", saved.shift);
  rows.add("mass", saved.mass);
  rows.add("theta", kernels.theta());
  rows.add("inverse", inverse);
  rows.add("of_mass", of_mass);
  rows.add("of_scalars", of_scalars);
  kernels.then(std::move(rows));

  const auto add_inputs = [&](Launch& launch) {
    kernels.add_scores(launch);
    if (has_values) launch.add_heads("value", call.value);
    launch.add_heads("gradient", gradient);
    launch.add("shift", saved.shift);
    launch.add("inverse", inverse);
    launch.add("of_mass", of_mass);
  };
  Launch of_queries = kernels.of_rows("backward_queries");
  add_inputs(of_queries);
  of_queries.add_heads("of_query", gradients.query);
  of_queries.add("of_scalars", of_scalars);
  at::Tensor of_bias, of_energy_bias, of_centers, of_weight;
  const auto written = [&](bool is_wanted, const char* name, at::Tensor& tensor, at::IntArrayRef size) {
    if (!is_wanted) return;
    tensor = at::zeros(size, numbers);
    of_queries.add(name, tensor);
  };
  written(wanted.bias, "of_bias", of_bias, {batch, heads, queries, keys});
  written(wanted.energy_bias, "of_energy_bias", of_energy_bias, {batch, heads, queries, keys});
  written(wanted.centers, "of_centers", of_centers, {batch, heads, queries, 1});
  written(wanted.score_weight, "of_weight", of_weight, {batch, heads, of_queries.programs / (batch * heads), head_dim});
  kernels.then_twice(std::move(of_queries));

  const auto then_keys = [&](bool of_keys, bool of_values) {
    Launch launch = kernels.of_keys("backward_keys", call.value.size(1) * (of_keys ? sub_heads : 1));
    add_inputs(launch);
    if (of_keys) launch.add_heads("of_key", gradients.key);
    if (of_values) launch.add_heads("of_value", gradients.value);
    launch.add_constant("OF_KEYS", of_keys ? 1 : 0);
    launch.add_constant("OF_VALUES", of_values ? 1 : 0);
    kernels.then_twice(std::move(launch));
  };
  const bool together = sub_heads == 1 || !has_values;
  then_keys(true, together && has_values);
  if (!together) then_keys(false, true);
  kernels.run();

  // Row by row first: a sum of so many numbers into one is split by threads.
  if (kernels.theta().size(1) > 0) gradients.parameters.copy_(of_scalars.to(at::kDouble).sum(2).sum(0));
  if (wanted.bias) gradients.bias = sum_in_order(of_bias, sub_heads, call.options.bias->sizes());
  if (wanted.energy_bias)
    gradients.energy_bias = sum_in_order(of_energy_bias, sub_heads, call.options.energy_bias->sizes());
  if (wanted.centers)
    gradients.centers = sum_in_order(of_centers, sub_heads, {batch, heads / sub_heads, queries, 1}).squeeze(-1);
  if (wanted.score_weight) gradients.score_weight = of_weight.to(at::kDouble).sum(2).sum(0).to(at::kFloat);
}

// Of a map that can be recorded, as wide as blocks of rows may be. Weights are rounded before they are divided by N,
// which for maps without an exponent may be beyond float16.
bool is_launched(const PairwiseCall& call) {
  constexpr std::int64_t widest = 256;
  const auto is_recorded = [&](RowMapFunction function) {
    return authoring::row_map_trace(call.mechanism, function, 1) != nullptr;
  };
  if (call.query.scalar_type() == at::kHalf && !find_mechanism(call.mechanism).pairwise()->has_energy) return false;
  return call.query.size(3) <= widest && call.value.size(3) <= widest && call.key.size(2) > 0 &&
         is_recorded(RowMapFunction::terms) && is_recorded(RowMapFunction::normalizer);
}

PairwiseEngine engine_of(at::DeviceType device) {
  return {.device = device,
          .dtypes = {at::kFloat, at::kBFloat16, at::kHalf},
          .options = every_pairwise_option(),
          .weights = true,
          .statistics = true,
          .serves = is_launched,
          .forward = launch_forward,
          .backward = launch_backward,
          .mixture_statistics = launch_mixture_statistics};
}

}  // namespace

const PairwiseEngine& interpreted_pairwise_engine() {
  static const PairwiseEngine engine = [] {
    PairwiseEngine made = engine_of(at::kCPU);
    made.interpreted = true;
    made.kernels = []() -> std::vector<KernelEntry> {
      return {{"every row map and law", "cpu", "Triton", "float32, 16 bits", interprets_kernels(),
               "the kernels for GPUs, interpreted by COGWHEEL_ENGINE=interpreted: slow, for tests"}};
    };
    return made;
  }();
  return engine;
}

const PairwiseEngine& cuda_pairwise_engine() {
  static const PairwiseEngine engine = [] {
    PairwiseEngine made = engine_of(at::kCUDA);
    made.lacks = device_lacks;
    // Without starting the driver, after which a process may not fork.
    made.kernels = []() -> std::vector<KernelEntry> {
      const bool driver = device::CudaDriver::is_there();
      const std::string lacked =
          driver ? std::string(device::compiled_kernels_lack()) : "lacks libcuda.so.1, the driver of a GPU";
      return {{"every row map and law", "cuda", "Triton", "float32, 16 bits", lacked.empty(),
               lacked.empty() ? "compiled when it is first needed" : lacked}};
    };
    return made;
  }();
  return engine;
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("triton_text(str mechanism) -> str", [](c10::string_view mechanism) {
    try {
      return authoring::triton_text(mechanism);
    } catch (const UsageError& error) {
      TORCH_CHECK_VALUE(false, error.what());
    }
  });
}

}  // namespace cogwheel::ops
