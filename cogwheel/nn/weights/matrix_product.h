// x Wᵀ + b in float32, or in bfloat16 while BFloat16Products is in force.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::nn {

// x [..., inputs], weight [outputs, inputs], bias [outputs] or undefined → [..., outputs], in the dtype of x, to which
// the others are converted (ops/layers/matrix_product.h). Differentiable any number of times.
at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// The type in which matrix_product of x computes: bfloat16 of a float32 x while BFloat16Products is in force, else its
// own.
at::ScalarType product_type(const at::Tensor& x);

// While such an object exists, float32 products on its thread round their operands to bfloat16, accumulate in float32,
// and return bfloat16; so do the products of their backward pass, whenever it runs. The values between products
// (queries, keys, values, hidden units) are then bfloat16; the residual stream, the moments of its norms and all
// gradients of parameters stay float32. On a CPU without bfloat16 instructions the results are right, but slow.
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

}  // namespace cogwheel::nn
