// x Wᵀ + b, through whichever of libtorch's libraries is the fastest on this CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

namespace cogwheel {

// The library that multiplies float32 on this CPU, "oneDNN" or "MKL" ("BLAS" where libtorch has another); the bits of a
// run depend on it. MKL, unless it leaves the CPU's AVX-512 unused, as on those that are not Intel's: on an AMD EPYC
// with AVX-512, one core, [768, 128] × [128, 512] ran at 90 GFLOP/s with MKL and at 205 with oneDNN; on AVX2, and on
// Intel's AVX-512, MKL is 3 to 20 % ahead (docs/performance.md). The environment's COGWHEEL_MATRIX_PRODUCTS=onednn or
// =mkl overrides; throws UsageError where it says something else, or what libtorch lacks.
std::string_view matrix_product_library();

// x [..., inputs], weight [outputs, inputs], bias [outputs] or undefined → [..., outputs], in the type of x, to which
// the others are rounded. float32 on the CPU goes through matrix_product_library(), all else through at::linear.
// Differentiable any number of times.
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
