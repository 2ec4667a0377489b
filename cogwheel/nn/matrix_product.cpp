#include "cogwheel/nn/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/matrix_product_library.h"

namespace cogwheel {
namespace {

using OneDnnLinear = at::Tensor(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                std::string_view attribute, c10::List<std::optional<at::Scalar>> scalars,
                                std::optional<std::string_view> algorithm);

// The operator that torch.compile uses for the same purpose; builds for other architectures may lack it.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn_linear() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!handle || !handle->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    return handle->typed<OneDnnLinear>();
  }();
  return found;
}

constexpr std::string_view onednn = "oneDNN";

std::string_view blas() { return at::hasMKL() ? "MKL" : "BLAS"; }

// MKL takes AVX-512 on Intel's CPUs alone.
bool mkl_leaves_avx512_unused() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f");
#else
  return true;
#endif
}

std::string_view choose_library() {
  const char* const variable = std::getenv("COGWHEEL_MATRIX_PRODUCTS");
  const std::string_view wanted = variable ? variable : "";
  if (wanted.empty()) {
    const bool by_onednn = onednn_linear() && !(at::hasMKL() && !mkl_leaves_avx512_unused());
    return by_onednn ? onednn : blas();
  }
  const std::string here = std::string(onednn_linear() ? "onednn or " : "") + (at::hasMKL() ? "mkl" : "blas");
  if (wanted == "onednn" && onednn_linear()) return onednn;
  if (wanted == (at::hasMKL() ? "mkl" : "blas")) return blas();
  throw UsageError(expected_got("COGWHEEL_MATRIX_PRODUCTS", here, wanted));
}

thread_local bool products_in_bfloat16 = false;

at::Tensor rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.flatten(0, -2); }

struct OneDnnProduct : torch::autograd::Function<OneDnnProduct> {
  // x [rows, inputs]
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return onednn_linear()->call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
  }

  // Products again, so that a second derivative is right.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &gradient = gradients[0];
    at::Tensor to_x, to_weight, to_bias;
    if (context->needs_input_grad(0)) to_x = apply(gradient, weight.t(), std::nullopt);
    if (context->needs_input_grad(1)) to_weight = apply(gradient.t(), x.t(), std::nullopt);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2)) to_bias = gradient.sum(0);
    return {to_x, to_weight, to_bias};
  }
};

}  // namespace

std::string_view matrix_product_library() {
  static const std::string_view chosen = choose_library();
  return chosen;
}

at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.scalar_type() == at::kBFloat16 || (products_in_bfloat16 && x.scalar_type() == at::kFloat)) {
    const auto rounded = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kBFloat16) : tensor; };
    // at::linear takes oneDNN for bfloat16 by itself.
    return at::linear(rounded(x), rounded(weight), rounded(bias));
  }
  if (x.scalar_type() != at::kFloat || !x.device().is_cpu() || matrix_product_library() != onednn)
    return at::linear(x, weight, bias);
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return OneDnnProduct::apply(rows(x), weight, bias.defined() ? std::optional(bias) : std::nullopt).view(shape);
}

BFloat16Products::BFloat16Products(bool enabled) : before_(products_in_bfloat16) { products_in_bfloat16 = enabled; }
bool BFloat16Products::enabled() { return products_in_bfloat16; }
BFloat16Products::~BFloat16Products() { products_in_bfloat16 = before_; }

}  // namespace cogwheel
