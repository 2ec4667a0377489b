#include "cogwheel/nn/weights/row_products.h"

#include <torch/types.h>

#include <utility>

namespace cogwheel::nn {
namespace {

thread_local const RowProducts* row_products_in_force = nullptr;

}  // namespace

RowProducts::RowProducts(Make make) : make_(std::move(make)), before_(row_products_in_force) {
  row_products_in_force = this;
}
RowProducts::~RowProducts() { row_products_in_force = before_; }
const RowProducts* RowProducts::in_force() { return row_products_in_force; }

at::Tensor RowProducts::product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  const bool one_row = x.dim() > 0 && x.numel() == x.size(-1) && weight.dim() == 2 && weight.size(1) == x.size(-1);
  if (!one_row || x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat || !x.is_cpu()) return {};
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return make_(x.reshape({1, x.size(-1)}), {weight, std::nullopt, ops::or_none(bias)}).view(sizes);
}

}  // namespace cogwheel::nn
