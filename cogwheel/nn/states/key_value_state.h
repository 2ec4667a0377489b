// The decoding state of attention: keys and values in a KeyValueCache.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cogwheel/nn/states/layer_state.h"
#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/ops/cache/key_value_cache.h"

namespace cogwheel::nn {

class KeyValueState : public LayerState {
 public:
  // Keys [B, N, heads, D] that were turned to their positions, turned back by a distance.
  using TurnBack = std::function<at::Tensor(const at::Tensor& keys, std::int64_t distance)>;

  // Without `turn_back`, keys do not depend on their positions.
  explicit KeyValueState(ops::KeyValueCache cache, TurnBack turn_back = {})
      : cache_(std::move(cache)), turn_back_(std::move(turn_back)) {}

  // Keys and values of float32 are rounded as they come: to bfloat16, which attention then reads, queries rounded as
  // well; or to int8 with a scale for each key or value of each head (weights/narrow_weights.h), which each pass widens
  // to float32, a layer at a time. Only of an empty state. Throws UsageError where they are not float32.
  void keep_as(NumberType type);

  // As of the cache, with tensors of the model's type.
  void append(const at::Tensor& key, const at::Tensor& value);
  at::Tensor attend(const at::Tensor& query, std::string_view mechanism, const ops::AttentionOptions& options) const;

  // What attention reads, in the model's type: queries as they are rounded, keys and values of the longest entry.
  at::Tensor read_query(const at::Tensor& query) const;
  at::Tensor key() const { return keys(0, longest()); }
  at::Tensor value() const;

  at::Tensor lengths() const override { return cache_.lengths(); }
  std::int64_t longest() const override { return cache_.longest(); }
  void crop(const at::Tensor& kept) override;
  void forget(std::int64_t first, std::int64_t count) override;
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override;
  std::int64_t bytes() const override;

 private:
  at::Tensor rounded(const at::Tensor& given) const;
  at::Tensor widened(const at::Tensor& kept, const at::Tensor& scale) const;
  at::Tensor keys(std::int64_t first, std::int64_t count) const;

  ops::KeyValueCache cache_;
  std::optional<ops::KeyValueCache> scales_;  // of int8: [B, heads, tokens, 1]
  bool rounds_ = false;                       // float32 to bfloat16
  TurnBack turn_back_;
};

}  // namespace cogwheel::nn
