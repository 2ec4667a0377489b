// x Wᵀ + b in float32, or in bfloat16 while that is asked for.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// x [..., inputs], weight [outputs, inputs], bias [outputs] or undefined → [..., outputs], in the type of x, to which
// the others are rounded (ops/layers/matrix_product.h). Differentiable any number of times.
at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// While one lives, products of float32 on its thread round their operands to bfloat16, add in float32, and give
// bfloat16; so do the products of their backward pass, whenever it runs. What lies between products (queries, keys,
// values, hidden units) is bfloat16 then; the residual stream, its norms' moments and all gradients of parameters stay
// float32. On a CPU without bfloat16 instructions it is right, and slow.
class BFloat16Products {
 public:
  explicit BFloat16Products(bool enabled = true);
  ~BFloat16Products();
  static bool enabled();  // on this thread
  BFloat16Products(const BFloat16Products&) = delete;
  BFloat16Products& operator=(const BFloat16Products&) = delete;

 private:
  bool before_;
};

}  // namespace cogwheel
