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

at::Tensor RowProducts::product(const at::Tensor& x, const RowWeight& weight) const {
  const at::Tensor& numbers = weight.numbers;
  const bool one_row = x.dim() > 0 && x.numel() == x.size(-1) && numbers.dim() == 2 && numbers.size(1) == x.size(-1);
  if (!one_row || x.scalar_type() != at::kFloat || !x.is_cpu()) return {};
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = numbers.size(0);
  return make_(x.reshape({1, x.size(-1)}), weight).view(sizes);
}

}  // namespace cogwheel::nn
