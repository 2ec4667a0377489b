// The engine of one instruction set, behind plain functions: the tests themselves are compiled for any machine.
#pragma once
#include <cstddef>
#include <string_view>

#include "cogwheel/kernels/pairwise.h"

namespace cogwheel {

// The Gaussian window that the tests put into the multiplier: w = exp(−(j − i)²/200), whatever the head.
inline constexpr double gaussian_width = 200;

struct EngineUnderTest {
  std::string_view isa;
  void (*exp_float)(const float* from, std::size_t count, float* to);
  void (*exp_double)(const double* from, std::size_t count, double* to);
  PairwiseKernel<double> sink_softmax, shifted_sigmoid, windowed_softmax;
  PairwiseKernel<float> sink_softmax_float;
};

}  // namespace cogwheel
