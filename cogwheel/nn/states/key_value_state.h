// The decoding state of attention: keys and values in a KeyValueCache.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "cogwheel/nn/states/layer_state.h"
#include "cogwheel/ops/cache/key_value_cache.h"

namespace cogwheel::nn {

class KeyValueState : public LayerState {
 public:
  explicit KeyValueState(ops::KeyValueCache cache) : cache_(std::move(cache)) {}

  ops::KeyValueCache& cache() { return cache_; }
  at::Tensor lengths() const override { return cache_.lengths(); }
  std::int64_t longest() const override { return cache_.longest(); }
  void crop(const at::Tensor& kept) override { cache_.crop(kept); }
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override {
    return std::make_unique<KeyValueState>(cache_.fork(entries));
  }
  std::int64_t bytes() const override {
    const auto of_token = [](const at::Tensor& part) { return part.size(1) * part.size(3) * part.element_size(); };
    return cache_.lengths().sum().item<std::int64_t>() * (of_token(cache_.key()) + of_token(cache_.value()));
  }

 private:
  ops::KeyValueCache cache_;
};

}  // namespace cogwheel::nn
