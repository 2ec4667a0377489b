// Kernels in Triton's language around row maps printed from their headers (attention/authoring/triton_text.h). Python
// launches them (python/cogwheel/device_kernels): here interpreted on the CPU, where COGWHEEL_ENGINE=interpreted asks
// for it, so that what a GPU would compute is proved without one.
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/attention/authoring/row_map_trace.h"
#include "cogwheel/attention/authoring/triton_text.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// The end of the schemas of what Python implements.
#define TRITON_REST                                                                                                   \
  "Tensor parameters, str mechanism, float scale, str mask, int window, int sub_heads, Tensor? key_lengths, Tensor? " \
  "first_positions) -> ()"

using LaunchForward = void(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& output, const at::Tensor& shift, const at::Tensor& mass,
                           const at::Tensor& parameters, c10::string_view mechanism, double scale,
                           c10::string_view mask, std::int64_t window, std::int64_t sub_heads,
                           const OptionalTensor& key_lengths, const OptionalTensor& first_positions);
using LaunchBackward = void(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& output, const at::Tensor& shift,
                            const at::Tensor& mass, const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                            const at::Tensor& value_gradient, const at::Tensor& parameter_gradient,
                            const at::Tensor& parameters, c10::string_view mechanism, double scale,
                            c10::string_view mask, std::int64_t window, std::int64_t sub_heads,
                            const OptionalTensor& key_lengths, const OptionalTensor& first_positions);

// The operator of that name, which the package implements.
template <class Launch>
c10::TypedOperatorHandle<Launch> launcher(const char* name) {
  auto found = find_operator<Launch>(name);
  if (!found.hasKernelForDispatchKey(c10::DispatchKey::CPU))
    throw UsageError(expected_got("COGWHEEL_ENGINE=interpreted",
                                  "attention called from Python, by the package cogwheel", "this program"));
  return found;
}

void launch_forward(const PairwiseCall& call, const WantedOutputs&, const PairwiseResults& results) {
  static const auto launch = launcher<LaunchForward>("cogwheel::triton_forward");
  const PairwiseOptions& options = call.options;
  launch.call(call.query, call.key, call.value, results.output, results.shift, results.mass, call.parameters,
              call.mechanism, options.scale, options.mask, options.window, options.sub_heads, options.key_lengths,
              options.first_positions);
}

void launch_backward(const PairwiseCall& call, const at::Tensor& gradient, const PairwiseSaved& saved,
                     const WantedGradients&, GradientsOfCall& gradients) {
  static const auto launch = launcher<LaunchBackward>("cogwheel::triton_backward");
  const PairwiseOptions& options = call.options;
  launch.call(gradient, call.query, call.key, call.value, saved.output, saved.shift, saved.mass, gradients.query,
              gradients.key, gradients.value, gradients.parameters, call.parameters, call.mechanism, options.scale,
              options.mask, options.window, options.sub_heads, options.key_lengths, options.first_positions);
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

std::vector<KernelEntry> triton_kernels() {
  return {{"every row map", "cpu", "Triton", "float32, 16 bits", interprets_kernels(),
           "the kernels for GPUs, interpreted by COGWHEEL_ENGINE=interpreted: slow, for tests"}};
}

}  // namespace

const PairwiseEngine& triton_pairwise_engine() {
  static const PairwiseEngine engine{.device = at::kCPU,
                                     .dtypes = {at::kFloat, at::kBFloat16, at::kHalf},
                                     .options = {.scale = true,
                                                 .mask = true,
                                                 .window = true,
                                                 .sub_heads = true,
                                                 .key_lengths = true,
                                                 .first_positions = true},
                                     .interpreted = true,
                                     .serves = is_launched,
                                     .forward = launch_forward,
                                     .backward = launch_backward,
                                     .kernels = triton_kernels};
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
  library.def(
      "triton_forward(Tensor query, Tensor key, Tensor value, Tensor(a!) output, Tensor(b!) shift, Tensor(c!) "
      "mass, " TRITON_REST);
  library.def(
      "triton_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor output, Tensor shift, Tensor "
      "mass, Tensor(a!) query_gradient, Tensor(b!) key_gradient, Tensor(c!) value_gradient, Tensor(d!) "
      "parameter_gradient, " TRITON_REST);
}
#undef TRITON_REST

}  // namespace cogwheel::ops
