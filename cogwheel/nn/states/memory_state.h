// The decoding state of attention to another sequence: the keys and values of that sequence, computed once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "cogwheel/nn/states/layer_state.h"

namespace cogwheel::nn {

struct MemoryState : LayerState {
  at::Tensor key, value;  // [B, Hk, M, head_dim], [B, Hv, M, value_dim]; undefined until the first pass
  std::optional<at::Tensor> memory_lengths;

  void keep(const at::Tensor& keys, const at::Tensor& values, const std::optional<at::Tensor>& lengths);

  // The memory does not grow with the tokens that read it, so that crop and forget leave it unchanged.
  at::Tensor lengths() const override;
  std::int64_t longest() const override { return key.defined() ? key.size(2) : 0; }
  void crop(const at::Tensor&) override {}
  void forget(std::int64_t, std::int64_t) override {}
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override;
  std::int64_t bytes() const override;
};

}  // namespace cogwheel::nn
