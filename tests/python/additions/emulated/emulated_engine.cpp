// An engine with a forward pass alone, of softmax in float64, for the device that tests emulate (emulated_device.py),
// whose tensors have no memory: so its kernel reads and writes copies on the host.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/pairwise/pairwise_problem.h"

namespace cogwheel::ops {
namespace {

std::atomic<std::int64_t> calls = 0;

// One row at a time, by the formula of a softmax.
void softmax_kernel(const PairwiseForward<double>& problem) {
  const PairwiseShape& shape = problem.shape;
  std::vector<double> weights(static_cast<std::size_t>(shape.keys));
  for (std::int64_t row = 0; row < shape.batch * shape.query_heads * shape.queries; ++row) {
    const std::int64_t batch = row / (shape.query_heads * shape.queries),
                       head = row / shape.queries % shape.query_heads, index = row % shape.queries;
    const KeyRange seen = problem.visibility.of(batch, shape.output_head(head)).of(index);
    const double* query = problem.query.row(batch, head, index);
    double shift = -std::numeric_limits<double>::infinity(), mass = 0;
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      const double* key = problem.key.row(batch, shape.key_head(head), j);
      double score = 0;
      for (std::int64_t d = 0; d < shape.head_dim; ++d) score += query[d] * key[d];
      weights[static_cast<std::size_t>(j)] = score * problem.scale;
      shift = std::max(shift, score * problem.scale);
    }
    double* output = problem.output.row(batch, head, index);
    std::fill_n(output, shape.value_dim, 0.0);
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      const double weight = std::exp(weights[static_cast<std::size_t>(j)] - shift);
      const double* value = problem.value.row(batch, shape.value_head(head), j);
      for (std::int64_t d = 0; d < shape.value_dim; ++d) output[d] += weight * value[d];
      mass += weight;
    }
    if (mass > 0) std::transform(output, output + shape.value_dim, output, [&](double sum) { return sum / mass; });
    problem.shift[row] = shift;
    problem.mass[row] = mass;
  }
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.to(at::kCPU).contiguous(); }

void forward(const PairwiseCall& call, const WantedOutputs&, const PairwiseResults& results) {
  ++calls;
  PairwiseOptions options = call.options;
  for (auto* lengths : {&options.key_lengths, &options.first_positions})
    if (*lengths) *lengths = on_host(**lengths);
  const at::Tensor output = at::empty_like(on_host(results.output)), shift = at::empty_like(on_host(results.shift)),
                   mass = at::empty_like(on_host(results.mass));
  PairwiseForward<double> problem;
  HeldOptions held;
  const PairwiseCall copied{on_host(call.query),      on_host(call.key), on_host(call.value),
                            on_host(call.parameters), call.mechanism,    options};
  describe(problem, copied, held);
  problem.output = heads_view<double>(output);
  problem.shift = shift.mutable_data_ptr<double>();
  problem.mass = mass.mutable_data_ptr<double>();
  softmax_kernel(problem);
  results.output.copy_(output);
  results.shift.copy_(shift);
  results.mass.copy_(mass);
}

}  // namespace

const PairwiseEngine& emulated_pairwise_engine() {
  static const PairwiseEngine engine{
      .device = at::kPrivateUse1,
      .dtypes = {at::kDouble},
      .options = {.scale = true,
                  .mask = true,
                  .window = true,
                  .sub_heads = true,
                  .key_lengths = true,
                  .first_positions = true},
      .serves = [](const PairwiseCall& call) { return call.mechanism == "softmax"; },
      .forward = forward,
      .kernels =
          [] {
            return std::vector<KernelEntry>{{"softmax", "emulated", "host", "float64", true, "chosen"}};
          }};
  return engine;
}

// So that a test sees whether it ran.
TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("forward_calls_of_emulated() -> int", [] { return calls.load(); });
}

}  // namespace cogwheel::ops
