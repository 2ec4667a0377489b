#include "cogwheel/ops/support/product.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/bmm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <vector>

#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

// a [batch, n, k] times b [batch, k, m].
at::Tensor batched_product(const at::Tensor& a, const at::Tensor& b) {
  static const auto handle =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>("cogwheel::batched_product");
  return handle.call(a, b);
}

// An operator rather than a guard around at::bmm: torch.func and backward run outside the guards that a thread has set.
at::Tensor batched_product_as_given(const at::Tensor& a, const at::Tensor& b) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  return at::bmm(a, b);
}

at::Tensor batched_product_autograd(const at::Tensor& a, const at::Tensor& b) {
  const variable_list inputs{a, b};
  at::Tensor values;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    values = batched_product(a, b);
  }
  if (needs_record(inputs))
    record("BatchedProductBackward", inputs, {values}, {},
           [](const variable_list& saved, const variable_list&, const variable_list& gradients) {
             variable_list result(2);
             if (saved[0].requires_grad()) result[0] = batched_product(gradients[0], saved[1].transpose(1, 2));
             if (saved[1].requires_grad()) result[1] = batched_product(saved[0].transpose(1, 2), gradients[0]);
             return result;
           });
  if (has_tangent(inputs)) {
    const at::Tensor of_a = a._fw_grad(0), of_b = b._fw_grad(0);
    at::Tensor tangent;
    if (of_a.defined()) tangent = batched_product(of_a, b._fw_primal(0));
    if (of_b.defined()) {
      const at::Tensor more = batched_product(a._fw_primal(0), of_b);
      tangent = tangent.defined() ? tangent + more : more;
    }
    values._set_fw_grad(tangent, 0, false);
  }
  return values;
}

at::Tensor batched_product_batched(const at::Tensor& a, const at::Tensor& b) { return at::bmm(a, b); }

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const auto before = [](const at::Tensor& tensor) { return tensor.sym_sizes().slice(0, tensor.dim() - 2); };
  const auto batch = at::infer_size_symint(before(a), before(b));
  c10::SymInt count = 1;
  for (const c10::SymInt& size : batch) count = count * size;
  const auto joined = [&](const at::Tensor& tensor) {
    std::vector<c10::SymInt> sizes(batch.begin(), batch.end());
    const c10::SymInt rows = tensor.sym_size(-2), columns = tensor.sym_size(-1);
    sizes.insert(sizes.end(), {rows, columns});
    return tensor.expand_symint(sizes).reshape_symint({count, rows, columns});
  };
  std::vector<c10::SymInt> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), {a.sym_size(-2), b.sym_size(-1)});
  const at::Tensor left = joined(a),
                   right = joined(b);  // in the order of at::matmul, so that gradients add up in its order
  return batched_product(left, right).view_symint(sizes);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { library.def("batched_product(Tensor a, Tensor b) -> Tensor"); }

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("batched_product", batched_product_as_given);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("batched_product", batched_product_autograd); }
// vmap: one batch dimension more, by ATen's rule rather than in a loop.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) { library.impl("batched_product", batched_product_batched); }

}  // namespace cogwheel::ops
