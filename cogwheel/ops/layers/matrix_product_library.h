// Which of libtorch's libraries multiplies matrices, and how it multiplies those of bfloat16.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/product_choice.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// The library that multiplies float32 on this CPU, "oneDNN" or "MKL" ("BLAS" where libtorch has another); the bits of a
// run depend on it. MKL, unless it leaves the CPU's AVX-512 unused, as on those that are not Intel's: on an AMD EPYC
// with AVX-512, one core, [768, 128] × [128, 512] ran at 90 GFLOP/s with MKL and at 205 with oneDNN; on AVX2, and on
// Intel's AVX-512, MKL is 3 to 20 % ahead (docs/performance.md). The environment's COGWHEEL_MATRIX_PRODUCTS=onednn or
// =mkl overrides; throws UsageError where it says something else, or what libtorch lacks.
inline constexpr std::string_view onednn = "oneDNN";
std::string_view matrix_product_library();

// x Wᵀ + b by that library: x [rows, inputs], weight [outputs, inputs], bias [outputs], all float32.
at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias);

// The same of bfloat16, widened to float32 and rounded once.
at::Tensor widened_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias);

// The library's own product of bfloat16; the other is `widened`.
inline constexpr std::string_view native = "native";

struct LayerProductChoice {
  std::string_view product = native;
  std::string reason;
};

// How products of bfloat16 are computed on the CPU, as product_choice() is made and kept: measured at the first call,
// some ten milliseconds of one thread; the usual one of this kind of machine unless the other is ahead by a tenth.
// Where COGWHEEL_PRODUCT says how attention multiplies, layers follow: `widened`, or for any other the library's own.
const LayerProductChoice& layer_product_choice();

// Chooses for the rest of the process, unless COGWHEEL_PRODUCT is set. `product` is native or widened.
void choose_layer_product(std::string_view product, std::string reason);

// Of both, the usual one first, by the processor time of this thread.
std::vector<ProductRate> measure_layer_products();

}  // namespace cogwheel::ops
