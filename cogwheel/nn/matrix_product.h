// x Wᵀ + b through oneDNN. at::linear takes MKL, which stays at AVX2 on CPUs that are not Intel's: on an AMD EPYC with
// AVX-512, one core, [768, 128] × [128, 512] ran at 90 GFLOP/s with MKL and at 205 with oneDNN.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// x [..., inputs], weight [outputs, inputs], bias [outputs] or undefined → [..., outputs]. float32 on the CPU goes
// through oneDNN where libtorch has it, all else through at::linear. Differentiable any number of times.
at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace cogwheel
