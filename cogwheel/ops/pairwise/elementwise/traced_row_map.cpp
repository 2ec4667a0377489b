#include "cogwheel/ops/pairwise/elementwise/traced_row_map.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/copysign.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/authoring/row_map_trace.h"

namespace cogwheel::ops {
namespace {

using Arguments = std::span<const at::Tensor>;

struct TracedOperation {
  std::string_view name;
  std::size_t arguments;
  at::Tensor (*of)(Arguments x);
};

// Where two arguments have no number in common with ATen's function (NaN, ±0), as lane.h has it.
constexpr TracedOperation traced_operations[] = {
    {"+", 2, [](Arguments x) { return x[0] + x[1]; }},
    {"-", 2, [](Arguments x) { return x[0] - x[1]; }},
    {"*", 2, [](Arguments x) { return x[0] * x[1]; }},
    {"/", 2, [](Arguments x) { return x[0] / x[1]; }},
    {"neg", 1, [](Arguments x) { return -x[0]; }},
    {"==", 2, [](Arguments x) { return x[0] == x[1]; }},
    {"<", 2, [](Arguments x) { return x[0] < x[1]; }},
    {">", 2, [](Arguments x) { return x[0] > x[1]; }},
    {"<=", 2, [](Arguments x) { return x[0] <= x[1]; }},
    {">=", 2, [](Arguments x) { return x[0] >= x[1]; }},
    {"where", 3, [](Arguments x) { return at::where(x[0], x[1], x[2]); }},
    {"exp", 1, [](Arguments x) { return at::exp(x[0]); }},
    {"exp_nonpositive", 1, [](Arguments x) { return at::exp(x[0]); }},
    {"log", 1, [](Arguments x) { return at::log(x[0]); }},
    {"log1p", 1, [](Arguments x) { return at::log1p(x[0]); }},
    {"sqrt", 1, [](Arguments x) { return at::sqrt(x[0]); }},
    {"tanh", 1, [](Arguments x) { return at::tanh(x[0]); }},
    {"sin", 1, [](Arguments x) { return at::sin(x[0]); }},
    {"cos", 1, [](Arguments x) { return at::cos(x[0]); }},
    {"abs", 1, [](Arguments x) { return at::abs(x[0]); }},
    {"sign", 1, [](Arguments x) { return at::where(x[0] == x[0], at::sign(x[0]), x[0]); }},
    {"softplus", 1, [](Arguments x) { return at::clamp_min(x[0], 0) + at::log1p(at::exp(-at::abs(x[0]))); }},
    {"sigmoid", 1, [](Arguments x) { return at::sigmoid(x[0]); }},
    {"sigmoid", 2, [](Arguments x) { return 1 / (1 + x[1] * at::exp(-x[0])); }},
    {"copysign", 2, [](Arguments x) { return at::copysign(x[0], x[1]); }},
    {"times_sign", 2,
     [](Arguments x) { return at::where(x[1] == 0, at::scalar_tensor(0, x[1].options()), at::copysign(x[0], x[1])); }},
};

const TracedOperation& operation_of(const authoring::TraceStep& step) {
  const auto found = std::find_if(
      std::begin(traced_operations), std::end(traced_operations),
      [&](const TracedOperation& each) { return each.name == step.name && each.arguments == step.arguments.size(); });
  TORCH_INTERNAL_ASSERT(found != std::end(traced_operations), "cogwheel: no operator for ", step.name);
  return *found;
}

}  // namespace

void write_traced(const authoring::Trace& trace, const at::Tensor& argument, const at::Tensor& shift,
                  const at::Tensor& visible, const at::Tensor& parameters, const at::Tensor& values) {
  const auto variable = [&](std::string_view name) -> at::Tensor {
    if (name == authoring::argument_variable) return argument;
    if (name == authoring::shift_variable) return shift;
    if (name == authoring::visible_variable) return visible;
    const auto scalar = std::find(authoring::theta_variables.begin(), authoring::theta_variables.end(), name);
    const at::Tensor of_heads = parameters.select(1, scalar - authoring::theta_variables.begin());
    return of_heads.to(argument.scalar_type()).unsqueeze(-1).unsqueeze(-1);  // [H, 1, 1]
  };
  const std::vector<std::size_t> last_uses = trace.last_uses();
  std::vector<at::Tensor> made(trace.steps.size());
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const authoring::TraceStep& step = trace.steps[i];
    if (step.is_number()) {
      made[i] = at::scalar_tensor(step.value, argument.options());
    } else if (step.is_variable()) {
      made[i] = variable(step.name);
    } else {
      std::vector<at::Tensor> arguments;
      for (const std::size_t each : step.arguments) arguments.push_back(made[each]);
      made[i] = operation_of(step).of(arguments);
      for (const std::size_t each : step.arguments)
        if (last_uses[each] == i) made[each].reset();
    }
  }
  for (std::size_t i = 0; i < trace.results.size(); ++i)
    values.select(0, static_cast<std::int64_t>(i)).copy_(made[trace.results[i]]);
}

}  // namespace cogwheel::ops
