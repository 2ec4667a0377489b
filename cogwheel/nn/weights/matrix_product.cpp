#include "cogwheel/nn/weights/matrix_product.h"

#include <optional>

#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/nn/weights/row_products.h"
#include "cogwheel/ops/layers/matrix_product.h"

namespace cogwheel::nn {
namespace {

thread_local bool products_in_bfloat16 = false;

}  // namespace

at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const NarrowWeights* const narrow_weights = NarrowProducts::in_force();
  const RowWeight* const narrow = narrow_weights != nullptr ? narrow_weights->find(weight) : nullptr;
  if (narrow != nullptr || weight.scalar_type() == at::kFloat) {
    const RowWeight read = narrow != nullptr ? RowWeight{narrow->numbers, narrow->scale, ops::or_none(bias)}
                                             : RowWeight{weight, std::nullopt, ops::or_none(bias)};
    if (const RowProducts* const rows = RowProducts::in_force())
      if (const at::Tensor product = rows->product(x, read); product.defined()) return product;
    if (narrow != nullptr) return narrow_product(x, read);
  }
  const at::ScalarType type = product_type(x);
  const auto rounded = [type](const at::Tensor& tensor) {
    return tensor.scalar_type() == type ? tensor : tensor.to(type);
  };
  return ops::matrix_product(rounded(x), rounded(weight), bias.defined() ? std::optional(rounded(bias)) : std::nullopt);
}

at::ScalarType product_type(const at::Tensor& x) {
  return products_in_bfloat16 && x.scalar_type() == at::kFloat ? at::kBFloat16 : x.scalar_type();
}

BFloat16Products::BFloat16Products(bool enabled) : before_(products_in_bfloat16) { products_in_bfloat16 = enabled; }
bool BFloat16Products::enabled() { return products_in_bfloat16; }
BFloat16Products::~BFloat16Products() { products_in_bfloat16 = before_; }

}  // namespace cogwheel::nn
