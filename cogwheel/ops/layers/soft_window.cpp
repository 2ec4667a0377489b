// cogwheel::soft_window: the engine's kernel on the CPU, shapes without data, a composition, and its place in autograd.
#include "cogwheel/ops/layers/soft_window.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/attention/kernels/soft_window/soft_window.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

using Windowed = std::tuple<at::Tensor, at::Tensor>;
using WindowGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

[[noreturn]] void refuse_window(const std::string& what, const std::string& expected, const std::string& got) {
  refuse_argument("soft_window: " + what, expected, got);
}

void check_window(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa, const at::Tensor& values,
                  const OptionalTensor& lengths) {
  if (alpha.scalar_type() != at::kFloat && alpha.scalar_type() != at::kDouble)
    refuse_window("alpha dtype", "float32 or float64", c10::toString(alpha.scalar_type()));
  if ((alpha.dim() != 2 && alpha.dim() != 3) || alpha.sym_size(-1) == 0)
    refuse_window("alpha", "[B, K] or [B, T, K]", shape_text(alpha));
  const auto check_beside_alpha = [&](const char* name, const at::Tensor& tensor) {
    const std::string what = std::string("soft_window: ") + name;
    if (tensor.device() != alpha.device()) refuse_device(what, tensor, alpha, "alpha");
    if (tensor.scalar_type() != alpha.scalar_type()) refuse_dtype(what, tensor, alpha, "alpha");
  };
  for (const auto& [name, tensor] : {std::pair("beta", &beta), std::pair("kappa", &kappa)}) {
    check_beside_alpha(name, *tensor);
    if (tensor->sym_sizes() != alpha.sym_sizes()) refuse_window(name, shape_text(alpha), shape_text(*tensor));
  }
  check_beside_alpha("values", values);
  if (values.dim() != 3 || values.sym_size(0) != alpha.sym_size(0))
    refuse_window("values", "[" + size_text(alpha.sym_size(0)) + ", U, D]", shape_text(values));
  if (!lengths) return;
  if (lengths->device() != alpha.device()) refuse_device("soft_window: lengths", *lengths, alpha, "alpha");
  if (lengths->scalar_type() != at::kLong)
    refuse_window("lengths dtype", "int64", c10::toString(lengths->scalar_type()));
  if (lengths->dim() != 1 || lengths->sym_size(0) != alpha.sym_size(0))
    refuse_window("lengths", "[" + size_text(alpha.sym_size(0)) + "]", shape_text(*lengths));
}

// NaN passes, and reaches its own entry alone.
template <class T>
void check_window_values(const at::Tensor& alpha, const at::Tensor& beta, const OptionalTensor& lengths,
                         std::int64_t positions) {
  const auto check = [](const char* name, const at::Tensor& tensor, const char* expected, const auto& is_wrong) {
    const T* const numbers = tensor.const_data_ptr<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      if (is_wrong(numbers[i])) refuse_window(name, expected, c10::str(numbers[i]));
  };
  check("alpha", alpha, "at least 0", [](T each) { return each < 0; });
  check("beta", beta, "above 0", [](T each) { return each <= 0; });
  if (!lengths) return;
  for (std::int64_t b = 0; b < lengths->numel(); ++b)
    if (const std::int64_t length = lengths->const_data_ptr<std::int64_t>()[b]; length < 0 || length > positions)
      refuse_window("lengths", "0 to " + std::to_string(positions), std::to_string(length));
}

Windowed empty_window(const at::Tensor& alpha, const at::Tensor& values) {
  auto sizes = alpha.sym_sizes().vec();
  sizes.back() = values.sym_size(2);
  const at::Tensor window = at::empty_symint(sizes, alpha.options());
  sizes.back() = values.sym_size(1) + 1;
  return {window, at::empty_symint(sizes, alpha.options())};
}

// The engine's problem, and the tensors that its pointers point into.
template <class T>
struct HeldWindow {
  at::Tensor alpha, beta, kappa, values;
  OptionalTensor lengths;

  HeldWindow(const at::Tensor& given_alpha, const at::Tensor& given_beta, const at::Tensor& given_kappa,
             const at::Tensor& given_values, const OptionalTensor& given_lengths)
      : alpha(given_alpha.contiguous()),
        beta(given_beta.contiguous()),
        kappa(given_kappa.contiguous()),
        values(given_values.contiguous()) {
    if (given_lengths) lengths = given_lengths->contiguous();
    check_window_values<T>(alpha, beta, lengths, values.size(1));
  }
  void describe(SoftWindowProblem<T>& problem) const {
    problem.batch = alpha.size(0);
    problem.steps = alpha.dim() == 3 ? alpha.size(1) : 1;
    problem.components = alpha.size(-1);
    problem.positions = values.size(1);
    problem.width = values.size(2);
    problem.alpha = alpha.const_data_ptr<T>();
    problem.beta = beta.const_data_ptr<T>();
    problem.kappa = kappa.const_data_ptr<T>();
    problem.values = values.const_data_ptr<T>();
    problem.lengths = lengths ? lengths->const_data_ptr<std::int64_t>() : nullptr;
  }
};

Windowed window_cpu(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa, const at::Tensor& values,
                    const OptionalTensor& lengths) {
  check_window(alpha, beta, kappa, values, lengths);
  const Windowed outputs = empty_window(alpha, values);
  AT_DISPATCH_FLOATING_TYPES(alpha.scalar_type(), "cogwheel::soft_window", [&] {
    const HeldWindow<scalar_t> held(alpha, beta, kappa, values, lengths);
    SoftWindowForward<scalar_t> problem;
    held.describe(problem);
    problem.window = std::get<0>(outputs).template mutable_data_ptr<scalar_t>();
    problem.weights = std::get<1>(outputs).template mutable_data_ptr<scalar_t>();
    soft_window_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return outputs;
}

Windowed window_meta(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa, const at::Tensor& values,
                     const OptionalTensor& lengths) {
  check_window(alpha, beta, kappa, values, lengths);
  return empty_window(alpha, values);
}

// The same in ATen's operators, for derivatives that the kernel lacks and for devices without one.
Windowed window_composed(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                         const at::Tensor& values, const OptionalTensor& lengths) {
  check_window(alpha, beta, kappa, values, lengths);
  const bool one_step = alpha.dim() == 2;
  const auto by_component = [&](const at::Tensor& tensor) {
    return (one_step ? tensor.unsqueeze(1) : tensor).unsqueeze(-1);  // [B, T, K, 1]
  };
  const at::Tensor positions = at::arange(values.sym_size(1) + 1, alpha.options()) + 1;
  const at::Tensor offsets = by_component(kappa) - positions;
  at::Tensor weights = (by_component(alpha) * (-by_component(beta) * offsets * offsets).exp()).sum(2), seen = values;
  if (lengths) {
    const at::Tensor ends = lengths->unsqueeze(1), index = at::arange(values.sym_size(1) + 1, lengths->options());
    weights = weights.masked_fill(index.gt(ends).unsqueeze(1), 0);
    seen = values.masked_fill(index.narrow_symint(0, 0, values.sym_size(1)).ge(ends).unsqueeze(-1), 0);
  }
  // Up to each entry's length: the weight one beyond it meets a 0.
  const at::Tensor window = at::matmul(weights.narrow_symint(2, 0, values.sym_size(1)), seen);
  return one_step ? Windowed{window.squeeze(1), weights.squeeze(1)} : Windowed{window, weights};
}

void check_window_gradients(const OptionalTensor& of_window, const OptionalTensor& of_weights, const at::Tensor& alpha,
                            const at::Tensor& values, const at::Tensor& weights) {
  const auto check = [&](const char* name, const at::Tensor& tensor, const c10::SymInt& columns) {
    auto sizes = alpha.sym_sizes().vec();
    sizes.back() = columns;
    if (tensor.sym_sizes() != c10::SymIntArrayRef(sizes) || tensor.scalar_type() != alpha.scalar_type())
      refuse_window(name, shape_text(c10::SymIntArrayRef(sizes)), shape_text(tensor));
  };
  if (of_window) check("gradient of w", *of_window, values.sym_size(2));
  if (of_weights) check("gradient of phi", *of_weights, values.sym_size(1) + 1);
  check("phi", weights, values.sym_size(1) + 1);
}

WindowGradients empty_window_gradients(const at::Tensor& alpha, const at::Tensor& values, bool wants_values) {
  const auto like = [](const at::Tensor& tensor) { return at::empty_symint(tensor.sym_sizes(), tensor.options()); };
  return {like(alpha), like(alpha), like(alpha), wants_values ? like(values) : at::empty({0}, values.options())};
}

WindowGradients window_back_cpu(const OptionalTensor& of_window, const OptionalTensor& of_weights,
                                const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                                const at::Tensor& values, const OptionalTensor& lengths, const at::Tensor& weights,
                                bool wants_values) {
  check_window(alpha, beta, kappa, values, lengths);
  check_window_gradients(of_window, of_weights, alpha, values, weights);
  const WindowGradients gradients = empty_window_gradients(alpha, values, wants_values);
  const auto& [of_alpha, of_beta, of_kappa, of_values] = gradients;
  const auto contiguous = [](const OptionalTensor& tensor) { return tensor ? tensor->contiguous() : at::Tensor(); };
  const at::Tensor to_window = contiguous(of_window), to_weights = contiguous(of_weights), phi = weights.contiguous();
  AT_DISPATCH_FLOATING_TYPES(alpha.scalar_type(), "cogwheel::soft_window_backward", [&] {
    const HeldWindow<scalar_t> held(alpha, beta, kappa, values, lengths);
    SoftWindowBackward<scalar_t> problem;
    held.describe(problem);
    problem.weights = phi.template const_data_ptr<scalar_t>();
    if (to_window.defined()) problem.window_gradient = to_window.template const_data_ptr<scalar_t>();
    if (to_weights.defined()) problem.weights_gradient = to_weights.template const_data_ptr<scalar_t>();
    problem.alpha_gradient = of_alpha.template mutable_data_ptr<scalar_t>();
    problem.beta_gradient = of_beta.template mutable_data_ptr<scalar_t>();
    problem.kappa_gradient = of_kappa.template mutable_data_ptr<scalar_t>();
    if (wants_values) problem.values_gradient = of_values.template mutable_data_ptr<scalar_t>();
    soft_window_kernel<scalar_t>().backward(problem, TorchExecutor());
  });
  return gradients;
}

WindowGradients window_back_meta(const OptionalTensor&, const OptionalTensor&, const at::Tensor& alpha,
                                 const at::Tensor& beta, const at::Tensor& kappa, const at::Tensor& values,
                                 const OptionalTensor& lengths, const at::Tensor&, bool wants_values) {
  check_window(alpha, beta, kappa, values, lengths);
  return empty_window_gradients(alpha, values, wants_values);
}

WindowGradients call_window_back(const OptionalTensor& of_window, const OptionalTensor& of_weights,
                                 const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                                 const at::Tensor& values, const OptionalTensor& lengths, const at::Tensor& weights,
                                 bool wants_values) {
  static const auto handle = find_operator<decltype(call_window_back)>("cogwheel::soft_window_backward");
  return handle.call(of_window, of_weights, alpha, beta, kappa, values, lengths, weights, wants_values);
}

variable_list window_node(const variable_list& inputs, const variable_list& kept, const variable_list& gradients) {
  if (at::GradMode::is_enabled())
    return gradients_through(
        [&](const variable_list& given) {
          const auto [window, weights] = window_composed(given[0], given[1], given[2], given[3], or_none(kept[1]));
          return variable_list{window, weights};
        },
        inputs, gradients);
  const bool wants_values = inputs[3].requires_grad();
  const auto [of_alpha, of_beta, of_kappa, of_values] =
      call_window_back(or_none(gradients[0]), or_none(gradients[1]), inputs[0], inputs[1], inputs[2], inputs[3],
                       or_none(kept[1]), kept[0], wants_values);
  return {of_alpha, of_beta, of_kappa, wants_values ? of_values : at::Tensor()};
}

Windowed window_autograd(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                         const at::Tensor& values, const OptionalTensor& lengths) {
  const variable_list inputs{alpha, beta, kappa, values};
  const bool records = needs_record(inputs);
  if (has_tangent(inputs) || (records && !alpha.is_cpu() && !alpha.is_meta()))
    return window_composed(alpha, beta, kappa, values, lengths);
  Windowed outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = soft_window(alpha, beta, kappa, values, lengths);
  }
  if (records)
    record_saving("SoftWindowBackward", inputs, {std::get<0>(outputs), std::get<1>(outputs)},
                  {.inputs = inputs, .outputs = {std::get<1>(outputs)}, .constants = {or_undefined(lengths)}},
                  window_node);
  return outputs;
}

// The node above composes second derivatives, so that only a direct call could ask for these.
WindowGradients window_back_autograd(const OptionalTensor& of_window, const OptionalTensor& of_weights,
                                     const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                                     const at::Tensor& values, const OptionalTensor& lengths, const at::Tensor& weights,
                                     bool wants_values) {
  const variable_list inputs{or_undefined(of_window), or_undefined(of_weights), alpha, beta, kappa, values};
  if (needs_record(inputs) || has_tangent(inputs))
    refuse_window("derivatives", "those of soft_window", "those of soft_window_backward");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_window_back(of_window, of_weights, alpha, beta, kappa, values, lengths, weights, wants_values);
}

}  // namespace

Windowed soft_window(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa, const at::Tensor& values,
                     const OptionalTensor& lengths) {
  static const auto handle = find_operator<decltype(soft_window)>("cogwheel::soft_window");
  return handle.call(alpha, beta, kappa, values, lengths);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "soft_window(Tensor alpha, Tensor beta, Tensor kappa, Tensor values, Tensor? lengths=None) -> (Tensor window, "
      "Tensor phi)");
  library.def(
      "soft_window_backward(Tensor? window_gradient, Tensor? phi_gradient, Tensor alpha, Tensor beta, Tensor kappa, "
      "Tensor values, Tensor? lengths, Tensor phi, bool wants_values=True) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("soft_window", window_cpu);
  library.impl("soft_window_backward", window_back_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("soft_window", window_meta);
  library.impl("soft_window_backward", window_back_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("soft_window", window_composed);
  implement_on_host(library, "soft_window_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("soft_window", window_autograd);
  library.impl("soft_window_backward", window_back_autograd);
}

}  // namespace cogwheel::ops
