// Which of libtorch's libraries multiplies matrices.
#pragma once
#include <string_view>

namespace cogwheel::ops {

// The library that multiplies float32 on this CPU, "oneDNN" or "MKL" ("BLAS" where libtorch has another); the bits of a
// run depend on it. MKL, unless it leaves the CPU's AVX-512 unused, as on those that are not Intel's: on an AMD EPYC
// with AVX-512, one core, [768, 128] × [128, 512] ran at 90 GFLOP/s with MKL and at 205 with oneDNN; on AVX2, and on
// Intel's AVX-512, MKL is 3 to 20 % ahead (docs/performance.md). The environment's COGWHEEL_MATRIX_PRODUCTS=onednn or
// =mkl overrides; throws UsageError where it says something else, or what libtorch lacks.
std::string_view matrix_product_library();

}  // namespace cogwheel::ops
