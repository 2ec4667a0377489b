#include "cogwheel/nn/weights/matrix_product.h"

#include <optional>

#include "cogwheel/ops/layers/matrix_product.h"

namespace cogwheel::nn {
namespace {

thread_local bool products_in_bfloat16 = false;

}  // namespace

at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
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
