#include "cogwheel/ops/layers/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
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

// MKL uses AVX-512 on Intel's CPUs only.
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

// [..., width] as [rows, width]; by reshape, which vmap supports.
at::Tensor rows(const at::Tensor& x) {
  if (x.dim() == 2) return x;
  c10::SymInt count = 1;
  for (const c10::SymInt& size : x.sym_sizes().slice(0, x.dim() - 1)) count = count * size;
  return x.reshape_symint({count, x.sym_size(-1)});
}

std::vector<c10::SymInt> sizes_of_product(const at::Tensor& x, const at::Tensor& weight) {
  auto sizes = x.sym_sizes().vec();
  sizes.back() = weight.sym_size(0);
  return sizes;
}

void check_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  if (x.dim() == 0) refuse_argument("matrix_product: x", "1 dimension or more", "a number");
  if (weight.dim() != 2) refuse_argument("matrix_product: weight", "[outputs, inputs]", shape_text(weight));
  check_beside_x("matrix_product: weight", weight, x, {weight.sym_size(0), x.sym_size(-1)});
  if (bias) check_beside_x("matrix_product: bias", *bias, x, {weight.sym_size(0)});
}

// For tangents too, and for devices without a kernel.
at::Tensor product_composed(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  check_product(x, weight, bias);
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  return at::linear(x, weight, bias);
}

at::Tensor product_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  if (x.scalar_type() != at::kFloat || matrix_product_library() != onednn) return product_composed(x, weight, bias);
  check_product(x, weight, bias);
  return onednn_linear()
      ->call(rows(x), weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "")
      .view_symint(sizes_of_product(x, weight));
}

at::Tensor product_meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  check_product(x, weight, bias);
  return at::empty_symint(sizes_of_product(x, weight), x.options());
}

// Composed of products, so that derivatives of any order are right.
variable_list product_backward(const at::Tensor& x, const at::Tensor& weight, bool biased, const at::Tensor& gradient) {
  variable_list result(3);
  if (x.requires_grad()) result[0] = ops::matrix_product(gradient, weight.t(), {});
  const at::Tensor of_rows = rows(gradient);
  if (weight.requires_grad()) result[1] = ops::matrix_product(of_rows.t(), rows(x).t(), {});
  if (biased) result[2] = of_rows.sum(0);
  return result;
}

at::Tensor product_autograd(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  const variable_list inputs{x, weight, bias.value_or(at::Tensor())};
  if (has_tangent(inputs)) return product_composed(x, weight, bias);
  at::Tensor product;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    product = ops::matrix_product(x, weight, bias);
  }
  if (needs_record(inputs))
    record_saving("MatrixProductBackward", inputs, {product}, {.inputs = {x, weight}, .outputs = {}, .constants = {}},
                  [biased = inputs[2].defined() && inputs[2].requires_grad()](
                      const variable_list& saved, const variable_list&, const variable_list& gradients) {
                    return product_backward(saved[0], saved[1], biased, gradients[0]);
                  });
  return product;
}

}  // namespace

std::string_view matrix_product_library() {
  static const std::string_view chosen = choose_library();
  return chosen;
}

at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  static const auto handle = find_operator<decltype(ops::matrix_product)>("cogwheel::matrix_product");
  return handle.call(x, weight, bias);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("matrix_product(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { library.impl("matrix_product", product_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("matrix_product", product_meta); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("matrix_product", product_composed); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("matrix_product", product_autograd); }

}  // namespace cogwheel::ops
