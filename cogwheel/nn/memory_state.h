// What attention to another sequence remembers: the keys and values of that sequence, made once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "cogwheel/nn/layer_state.h"

namespace cogwheel {

struct MemoryState : LayerState {
  at::Tensor key, value;  // [B, Hk, M, head_dim], [B, Hv, M, value_dim]; undefined until the first pass
  std::optional<at::Tensor> memory_lengths;

  void keep(const at::Tensor& keys, const at::Tensor& values, const std::optional<at::Tensor>& lengths);

  // Of the memory, which does not grow with the tokens that read it: nothing of it is ever forgotten.
  at::Tensor lengths() const override;
  std::int64_t longest() const override { return key.defined() ? key.size(2) : 0; }
  void crop(const at::Tensor&) override {}
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override;
  std::int64_t bytes() const override;
};

}  // namespace cogwheel
