#include "cogwheel/nn/memory_state.h"

#include <torch/types.h>

namespace cogwheel {

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
  copy->key = key.index_select(0, entries);
  copy->value = value.index_select(0, entries);
  if (memory_lengths) copy->memory_lengths = memory_lengths->index_select(0, entries);
  return copy;
}

std::int64_t MemoryState::bytes() const {
  return key.defined() ? key.numel() * key.element_size() + value.numel() * value.element_size() : 0;
}

}  // namespace cogwheel
