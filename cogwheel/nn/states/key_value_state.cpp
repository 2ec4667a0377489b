#include "cogwheel/nn/states/key_value_state.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/ops/cache/decode.h"

namespace cogwheel::nn {
namespace {

ops::KeyValueCache empty_cache(const ops::KeyValueCache& like, std::int64_t key_width, std::int64_t value_width,
                               at::ScalarType type) {
  return {{.batch = like.key().size(0),
           .key_heads = like.key().size(1),
           .value_heads = like.value().size(1),
           .capacity = like.capacity(),
           .head_dim = key_width,
           .value_dim = value_width},
          type,
          like.key().device()};
}

}  // namespace

void KeyValueState::keep_as(NumberType type) {
  if (type == NumberType::float32) return;
  if (cache_.key().scalar_type() != at::kFloat)
    throw UsageError(expected_got("cache", "a model in float32", at::toString(cache_.key().scalar_type())));
  rounds_ = type == NumberType::bfloat16;
  if (type == NumberType::int8) scales_ = empty_cache(cache_, 1, 1, at::kFloat);
  cache_ = empty_cache(cache_, cache_.head_dim(), cache_.value().size(3),
                       type == NumberType::int8 ? at::kChar : at::kBFloat16);
}

void KeyValueState::append(const at::Tensor& key, const at::Tensor& value) {
  if (!scales_) return cache_.append(rounded(key), rounded(value));
  const QuantizedRows keys = quantized_rows(key), values = quantized_rows(value);
  cache_.append(keys.numbers, values.numbers);
  scales_->append(keys.scale.unsqueeze(-1), values.scale.unsqueeze(-1));
}

at::Tensor KeyValueState::attend(const at::Tensor& query, std::string_view mechanism,
                                 const ops::AttentionOptions& options) const {
  if (scales_) return ops::decode(query, key(), value(), lengths(), std::nullopt, mechanism, options);
  return cache_.attend(rounded(query), mechanism, options).to(query.scalar_type());
}

at::Tensor KeyValueState::read_query(const at::Tensor& query) const { return rounded(query).to(query.scalar_type()); }

at::Tensor KeyValueState::rounded(const at::Tensor& given) const { return rounds_ ? given.to(at::kBFloat16) : given; }

at::Tensor KeyValueState::widened(const at::Tensor& kept, const at::Tensor& scale) const {
  if (scales_) return kept.to(at::kFloat).mul_(scale);
  return rounds_ ? kept.to(at::kFloat) : kept;
}

at::Tensor KeyValueState::keys(std::int64_t first, std::int64_t count) const {
  return widened(cache_.keys(first, count), scales_ ? scales_->keys(first, count) : at::Tensor());
}

at::Tensor KeyValueState::value() const {
  const auto all = [&](const at::Tensor& part) { return part.narrow(2, 0, longest()); };
  return widened(all(cache_.value()), scales_ ? all(scales_->value()) : at::Tensor());
}

void KeyValueState::crop(const at::Tensor& kept) {
  cache_.crop(kept);
  if (scales_) scales_->crop(kept);
}

void KeyValueState::forget(std::int64_t first, std::int64_t count) {
  cache_.forget(first, count);
  if (scales_) scales_->forget(first, count);
  const std::int64_t moved = longest() - first;
  if (!turn_back_ || moved <= 0) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor turned = turn_back_(keys(first, moved).transpose(1, 2), count).transpose(1, 2);
  if (!scales_) return cache_.write_keys_at(first, rounded(turned));
  const QuantizedRows again = quantized_rows(turned);
  cache_.write_keys_at(first, again.numbers);
  scales_->write_keys_at(first, again.scale.unsqueeze(-1));
}

std::unique_ptr<LayerState> KeyValueState::fork(const at::Tensor& entries) const {
  auto copy = std::make_unique<KeyValueState>(cache_.fork(entries), turn_back_);
  copy->rounds_ = rounds_;
  if (scales_) copy->scales_ = scales_->fork(entries);
  return copy;
}

std::int64_t KeyValueState::bytes() const {
  const auto of_token = [](const ops::KeyValueCache& cache) {
    const at::Tensor &key = cache.key(), &value = cache.value();
    return key.size(1) * cache.head_dim() * key.element_size() + value.size(1) * value.size(3) * value.element_size();
  };
  const std::int64_t each = of_token(cache_) + (scales_ ? of_token(*scales_) : 0);
  return cache_.lengths().sum().item<std::int64_t>() * each;
}

}  // namespace cogwheel::nn
