// How a product of one row is made, where that is not left to a library.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::nn {

// A weight as it is stored (ops/layers/row_product.h).
struct RowWeight {
  at::Tensor numbers;
  ops::OptionalTensor scale, bias;
};

// While such an object exists, `make` makes the products of matrix_product on its thread that have one row, float32, on
// the CPU: row [1, inputs] → [1, outputs].
class RowProducts {
 public:
  using Make = std::function<at::Tensor(const at::Tensor& row, const RowWeight& weight)>;

  explicit RowProducts(Make make);
  ~RowProducts();
  static const RowProducts* in_force();  // on this thread; null: none
  RowProducts(const RowProducts&) = delete;
  RowProducts& operator=(const RowProducts&) = delete;

  // Undefined for other operands.
  at::Tensor product(const at::Tensor& x, const RowWeight& weight) const;

 private:
  Make make_;
  const RowProducts* before_;
};

}  // namespace cogwheel::nn
