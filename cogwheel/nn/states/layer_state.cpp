#include "cogwheel/nn/states/layer_state.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace cogwheel::nn {

at::Tensor ragged_positions(const LayerState& state, std::int64_t tokens) {
  const at::Tensor lengths = state.lengths().cpu().contiguous();
  const auto* const first = lengths.const_data_ptr<std::int64_t>();
  if (std::count(first, first + lengths.numel(), *first) == lengths.numel()) return {};
  return lengths.unsqueeze(1) + at::arange(tokens, lengths.options());
}

void ModelState::crop(const at::Tensor& kept) {
  // All have the same lengths, but not all can drop tokens: no layer may drop what another keeps.
  for (const auto& layer : layers_) layer->check_crop(kept);
  for (const auto& layer : layers_) layer->crop(kept);
}

void ModelState::forget(std::int64_t first, std::int64_t count) {
  for (const auto& layer : layers_) layer->forget(first, count);
}

ModelState ModelState::fork(const at::Tensor& entries) const {
  std::vector<std::unique_ptr<LayerState>> layers;
  for (const auto& layer : layers_) layers.push_back(layer->fork(entries));
  return ModelState(std::move(layers));
}

std::int64_t ModelState::bytes() const {
  std::int64_t sum = 0;
  for (const auto& layer : layers_) sum += layer->bytes();
  return sum;
}

}  // namespace cogwheel::nn
