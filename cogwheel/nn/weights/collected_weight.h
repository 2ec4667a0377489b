// A weight that many steps multiply by: the gradients of all their products are one product.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace cogwheel::nn {

// Made for one forward pass, and shared by its steps. Backward of a step keeps the rows that met the weight and the
// gradients of what they gave; once all steps are through, autograd reaches the weight, and one product of all rows
// gives its gradient, instead of one product and one sum over the weight for each step. Products are those of
// matrix_product, rounded as it rounds; the weight is rounded once, here.
class CollectedWeight {
 public:
  CollectedWeight(const at::Tensor& weight, const at::Tensor& bias);  // [outputs, inputs], [outputs] or undefined

  at::Tensor product(const at::Tensor& x) const;  // [rows, inputs] → [rows, outputs]

  std::int64_t inputs() const { return weight_.size(1); }
  at::ScalarType type() const { return weight_.scalar_type(); }

  struct Rows;

 private:
  at::Tensor weight_, bias_;  // without a history, in the type of the product
  // The same as the outputs of the node that collects; undefined where no gradient is needed.
  at::Tensor collected_, collected_bias_;
  std::shared_ptr<Rows> rows_;  // those of steps whose backward is through
};

}  // namespace cogwheel::nn
