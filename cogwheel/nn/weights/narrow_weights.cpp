#include "cogwheel/nn/weights/narrow_weights.h"

#include <ATen/Parallel.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/ops/layers/matrix_product.h"
#include "cogwheel/ops/layers/row_product.h"

namespace cogwheel::nn {
namespace {

thread_local const NarrowWeights* narrow_weights_in_force = nullptr;

// Up to so many rows, converting each weight for every fourth row takes less time than writing it once.
constexpr std::int64_t few_rows = 16;

at::Tensor widened(const at::Tensor& numbers, const ops::OptionalTensor& scale, at::ScalarType type) {
  const at::Tensor wide = numbers.to(at::kFloat);
  if (scale) wide.mul_(scale->unsqueeze(-1));
  return wide.to(type);
}

// In bfloat16, in which integers up to 127 are exact.
at::Tensor product_of_many(const at::Tensor& rows, const RowWeight& weight) {
  at::Tensor product =
      ops::matrix_product(rows.to(at::kBFloat16), weight.numbers.to(at::kBFloat16), std::nullopt).to(at::kFloat);
  if (weight.scale) product.mul_(*weight.scale);
  if (weight.bias) product.add_(*weight.bias);
  return product;
}

}  // namespace

QuantizedRows quantized_rows(const at::Tensor& given) {
  const at::Tensor rows = given.detach().contiguous();
  const std::int64_t columns = rows.size(-1), count = columns == 0 ? 0 : rows.numel() / columns;
  QuantizedRows result{at::empty(rows.sizes(), rows.options().dtype(at::kChar)),
                       at::empty(rows.sizes().slice(0, static_cast<std::size_t>(rows.dim() - 1)), rows.options())};
  if (!rows.is_cpu()) {
    result.scale = rows.abs().amax(-1) / 127;
    const at::Tensor divisor = result.scale.masked_fill(result.scale == 0, 1).unsqueeze(-1);
    result.numbers = (rows / divisor).round().to(at::kChar);
    return result;
  }
  const float* const from = rows.const_data_ptr<float>();
  auto* const to = result.numbers.mutable_data_ptr<std::int8_t>();
  float* const scale = result.scale.mutable_data_ptr<float>();
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / std::max<std::int64_t>(1, columns));
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const numbers = from + row * columns;
      float largest = 0;
      for (std::int64_t column = 0; column < columns; ++column) largest = std::max(largest, std::abs(numbers[column]));
      scale[row] = largest / 127;
      const float divisor = scale[row] > 0 ? scale[row] : 1;
      // Rounding of a product by 1 / s could go beyond 127.
      for (std::int64_t column = 0; column < columns; ++column)
        to[row * columns + column] = static_cast<std::int8_t>(std::nearbyint(numbers[column] / divisor));
    }
  });
  return result;
}

NarrowWeights::NarrowWeights(torch::nn::Module& model, std::span<const at::Tensor> embeddings, NumberType type,
                             bool released) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& embedding : embeddings) add(embedding, type, released);
  for (const auto& module : model.modules())
    if (const auto* const linear = module->as<LinearImpl>()) add(linear->weight(), type, released);
}

void NarrowWeights::add(const at::Tensor& parameter, NumberType type, bool released) {
  if (parameter.scalar_type() != at::kFloat)
    throw UsageError(expected_got("weights", "a model in float32", at::toString(parameter.scalar_type())));
  const at::Tensor values = parameter.detach();
  if (type == NumberType::int8) {
    const QuantizedRows rows = quantized_rows(values);
    narrow_[parameter.unsafeGetTensorImpl()] = {rows.numbers, rows.scale, std::nullopt};
  } else {
    narrow_[parameter.unsafeGetTensorImpl()] = {values.to(at::kBFloat16).contiguous(), std::nullopt, std::nullopt};
  }
  if (!released) return;
  at::Tensor changed = parameter;
  changed.set_data(
      at::full({1, 1}, std::numeric_limits<float>::quiet_NaN(), parameter.options()).expand(parameter.sizes()));
}

const RowWeight* NarrowWeights::find(const at::Tensor& weight) const {
  const auto found = narrow_.find(weight.unsafeGetTensorImpl());
  return found == narrow_.end() ? nullptr : &found->second;
}

std::int64_t NarrowWeights::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [parameter, weight] : narrow_)
    sum += static_cast<std::int64_t>(weight.numbers.nbytes() + (weight.scale ? weight.scale->nbytes() : 0));
  return sum;
}

at::Tensor narrow_product(const at::Tensor& x, const RowWeight& weight) {
  const torch::NoGradGuard no_grad;
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.numbers.size(0);
  if (rows.scalar_type() == at::kFloat && rows.is_cpu())
    return (rows.size(0) <= few_rows ? ops::row_product(rows, weight.numbers, weight.scale, weight.bias)
                                     : product_of_many(rows, weight))
        .view(sizes);
  const at::Tensor wide = widened(weight.numbers, weight.scale, rows.scalar_type());
  return ops::matrix_product(rows, wide,
                             weight.bias ? std::optional(weight.bias->to(rows.scalar_type())) : std::nullopt)
      .view(sizes);
}

at::Tensor embedded_rows(const at::Tensor& embedding, const at::Tensor& tokens) {
  const RowWeight* const narrow =
      NarrowProducts::in_force() != nullptr ? NarrowProducts::in_force()->find(embedding) : nullptr;
  if (narrow == nullptr) return at::embedding(embedding, tokens);
  const at::Tensor flat = tokens.flatten();
  std::vector<std::int64_t> sizes = tokens.sizes().vec();
  sizes.push_back(embedding.size(1));
  const ops::OptionalTensor scale =
      narrow->scale ? ops::OptionalTensor(narrow->scale->index_select(0, flat)) : std::nullopt;
  return widened(narrow->numbers.index_select(0, flat), scale, at::kFloat).view(sizes);
}

NarrowProducts::NarrowProducts(const NarrowWeights* weights) : before_(narrow_weights_in_force) {
  if (weights != nullptr) narrow_weights_in_force = weights;
}
NarrowProducts::~NarrowProducts() { narrow_weights_in_force = before_; }
const NarrowWeights* NarrowProducts::in_force() { return narrow_weights_in_force; }

}  // namespace cogwheel::nn
