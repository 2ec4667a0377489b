#include "cogwheel/ops/layers/matrix_product.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/product_choice.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

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
  const bool widens = x.scalar_type() == at::kBFloat16 && layer_product_choice().product == widened;
  if (!widens && (x.scalar_type() != at::kFloat || matrix_product_library() != onednn))
    return product_composed(x, weight, bias);
  check_product(x, weight, bias);
  const at::Tensor product = widens ? widened_product(rows(x), weight, bias) : float_product(rows(x), weight, bias);
  return product.view_symint(sizes_of_product(x, weight));
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
