// The engine of one instruction set, behind plain functions: the tests themselves are compiled for any machine.
#pragma once
#include <cstddef>
#include <string_view>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel {

// The pieces of the additive score of any number of keys; rows of keys are in whole vectors of 16.
template <class T>
struct AdditiveScoreUnderTest {
  // query [rows][inner], key [keys][inner], weight [inner] → scores [rows][64]
  void (*scores)(std::int64_t rows, std::int64_t keys, std::int64_t inner, const T* query, const T* key,
                 const T* weight, T* scores);
  // Adds to query_gradient [rows][inner], key_gradient [keys][inner], both in whole vectors, and weight_gradient
  // [inner].
  void (*add_gradients)(std::int64_t rows, std::int64_t keys, std::int64_t inner, const T* query, const T* key,
                        const T* weight, const T* score_gradients, T* query_gradient, T* key_gradient,
                        double* weight_gradient);
};

// Functions of the lane type, of `count` numbers, a multiple of 16, and the derivative of a formula by dual numbers.
template <class T>
struct LaneFunctionsUnderTest {
  using Function = void (*)(const T* from, std::size_t count, T* to);
  Function log, log1p, sqrt, sin, cos, sigmoid, softplus, maximum_with_one, sign;
  // exp(tanh(x) x) / (1 + x²) − softplus(x), then its derivative, then its second derivative.
  void (*formula)(const T* from, std::size_t count, T* value, T* derivative, T* second);
};

struct EngineUnderTest {
  std::string_view isa;
  void (*exp_float)(const float* from, std::size_t count, float* to);
  void (*exp_float_nonpositive)(const float* from, std::size_t count, float* to);
  void (*exp_double)(const double* from, std::size_t count, double* to);
  void (*tanh_float)(const float* from, std::size_t count, float* to);
  void (*tanh_double)(const double* from, std::size_t count, double* to);
  LaneFunctionsUnderTest<float> lane_float;
  LaneFunctionsUnderTest<double> lane_double;
  AdditiveScoreUnderTest<float> additive_float;
  AdditiveScoreUnderTest<double> additive_double;
  PairwiseKernel<double> softmax, softmax_off_by_one, sigmoid;
};

}  // namespace cogwheel
