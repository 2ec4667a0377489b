// The decoding state of attention: keys and values in a KeyValueCache.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "cogwheel/nn/states/layer_state.h"
#include "cogwheel/ops/cache/key_value_cache.h"

namespace cogwheel::nn {

class KeyValueState : public LayerState {
 public:
  // Keys [B, N, heads, D] that were turned to their positions, turned back by a distance.
  using TurnBack = std::function<at::Tensor(const at::Tensor& keys, std::int64_t distance)>;

  // Without `turn_back`, keys do not depend on their positions.
  explicit KeyValueState(ops::KeyValueCache cache, TurnBack turn_back = {})
      : cache_(std::move(cache)), turn_back_(std::move(turn_back)) {}

  ops::KeyValueCache& cache() { return cache_; }
  at::Tensor lengths() const override { return cache_.lengths(); }
  std::int64_t longest() const override { return cache_.longest(); }
  void crop(const at::Tensor& kept) override { cache_.crop(kept); }
  void forget(std::int64_t first, std::int64_t count) override;
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override {
    return std::make_unique<KeyValueState>(cache_.fork(entries), turn_back_);
  }
  std::int64_t bytes() const override;

 private:
  ops::KeyValueCache cache_;
  TurnBack turn_back_;
};

}  // namespace cogwheel::nn
