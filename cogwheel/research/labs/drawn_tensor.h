// Tensors of a lab: float64 unless said, drawn from its own random numbers.
#pragma once
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "cogwheel/research/labs/draws.h"

namespace cogwheel::labs {

inline at::Tensor normal_tensor(at::IntArrayRef sizes, double standard_deviation, Draws& draws) {
  at::Tensor tensor = at::empty(sizes, at::kDouble);
  double* const data = tensor.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = standard_deviation * draws.normal();
  return tensor;
}

// [width, width], its columns orthonormal: of a Gaussian matrix, by Gram and Schmidt, twice for full precision.
inline at::Tensor orthonormal_columns(std::int64_t width, Draws& draws) {
  at::Tensor columns = normal_tensor({width, width}, 1, draws);
  for (std::int64_t i = 0; i < width; ++i) {
    at::Tensor column = columns.select(1, i);
    for (int pass = 0; pass < 2 && i > 0; ++pass) {
      const at::Tensor before = columns.slice(1, 0, i);
      column.sub_(before.mv(before.t().mv(column)));
    }
    column.div_(column.norm());
  }
  return columns;
}

}  // namespace cogwheel::labs
