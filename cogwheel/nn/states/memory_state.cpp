#include "cogwheel/nn/states/memory_state.h"

#include <torch/types.h>

#include "cogwheel/ops/cache/cache_checks.h"

namespace cogwheel::nn {

void MemoryState::keep(const at::Tensor& keys, const at::Tensor& values, const std::optional<at::Tensor>& lengths) {
  key = keys.detach();
  value = values.detach();
  memory_lengths = lengths;
}

at::Tensor MemoryState::lengths() const {
  if (memory_lengths || !key.defined()) return memory_lengths.value_or(at::Tensor());
  return at::full({key.size(0)}, key.size(2), key.options().dtype(at::kLong));
}

std::unique_ptr<LayerState> MemoryState::fork(const at::Tensor& entries) const {
  auto copy = std::make_unique<MemoryState>();
  if (!key.defined()) return copy;
  const at::Tensor chosen = ops::checked_entries(entries, key.size(0));
  copy->key = key.index_select(0, chosen.to(key.device()));
  copy->value = value.index_select(0, chosen.to(key.device()));
  if (memory_lengths) copy->memory_lengths = memory_lengths->index_select(0, chosen.to(memory_lengths->device()));
  return copy;
}

std::int64_t MemoryState::bytes() const {
  return key.defined() ? key.numel() * key.element_size() + value.numel() * value.element_size() : 0;
}

}  // namespace cogwheel::nn
