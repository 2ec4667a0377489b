#include "cogwheel/ops/support/vector_length.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/library.h>

#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

at::Tensor vector_length_by_aten(const at::Tensor& x) {
  return at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, true);
}

// By how much the length changes with each number of x.
at::Tensor derivative_of_length(const at::Tensor& x, const at::Tensor& length) {
  return (x / length).masked_fill(length.eq(0), 0);
}

at::Tensor vector_length_autograd(const at::Tensor& x) {
  at::Tensor length;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    length = vector_length(x);
  }
  // Backward takes the length of x anew, with its derivatives: one that is saved here has no tangent yet.
  if (needs_record({x}))
    record_saving("VectorLengthBackward", {x}, {length}, {{x}, {}, {}},
                  [](const variable_list& in, const variable_list&, const variable_list& gradients) {
                    return variable_list{gradients[0] * derivative_of_length(in[0], vector_length(in[0]))};
                  });
  if (has_tangent({x})) {
    const at::Tensor tangent = (x._fw_grad(0) * derivative_of_length(x._fw_primal(0), length)).sum(-1, true);
    length._set_fw_grad(tangent, 0, false);
  }
  return length;
}

}  // namespace

at::Tensor vector_length(const at::Tensor& x) {
  static const auto handle = find_operator<at::Tensor(const at::Tensor&)>("cogwheel::vector_length");
  return handle.call(x);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { library.def("vector_length(Tensor x) -> Tensor"); }

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("vector_length", vector_length_by_aten);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("vector_length", vector_length_autograd); }
// As for products: ATen's rule rather than a loop.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) { library.impl("vector_length", vector_length_by_aten); }

}  // namespace cogwheel::ops
