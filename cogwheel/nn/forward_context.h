// The one argument, beside what it reads, that goes through every layer of a model.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/layer_state.h"
#include "cogwheel/nn/tap.h"

namespace cogwheel {

struct ForwardContext {
  // [B, N] int64, where each token stands; undefined: one after another, after those of the state, else from 0. A pass
  // without a state is causal by the order of its tokens, whatever their positions.
  at::Tensor positions = {};
  // [B] int64: tokens at and beyond the length of their entry are padding, which nobody sees. Not beside a state.
  std::optional<at::Tensor> lengths = {};
  // What the model remembers: the tokens follow those in it, are added to it, and no gradient reaches the earlier ones.
  ModelState* state = nullptr;
  // [B, M, width], for layers that attend to another sequence, and its lengths as above.
  at::Tensor memory = {};
  std::optional<at::Tensor> memory_lengths = {};
  Dropout dropout = {};  // none: as in evaluation
  const Tap* tap = nullptr;

  // For the layer `index`: its state, draws of its own, its number for the tap.
  ForwardContext at_layer(std::size_t index) const {
    ForwardContext inner = *this;
    inner.site.layer = static_cast<std::int64_t>(index);
    inner.layer_state = state != nullptr ? &(*state)[index] : nullptr;
    inner.dropout = dropout.part(index + 1);
    return inner;
  }
  TapSite site = {};
  LayerState* layer_state = nullptr;

  bool taps(TapPlace place) const { return tap != nullptr && tap->wants(place); }
  // What the pass goes on with.
  at::Tensor tapped(TapPlace place, const at::Tensor& value) const {
    return tap != nullptr ? (*tap)(place, site, value) : value;
  }
};

}  // namespace cogwheel
