// The one argument, besides its input, that is passed through every layer of a model.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/layer_state.h"
#include "cogwheel/nn/tap.h"

namespace cogwheel {

struct ForwardContext {
  // [B, N] int64, the position of each token; undefined: consecutive, after those of the state, else from 0. A pass
  // without a state is causal in the order of its tokens, whatever their positions.
  at::Tensor positions = {};
  // [B] int64: tokens at and beyond the length of their entry are padding, which no token sees. Not with a state.
  std::optional<at::Tensor> lengths = {};
  // [S + 1] int64, from 0 to N: sequences that lie one after another in a batch of one, each of which sees only itself.
  // Not with lengths or a state.
  std::optional<at::Tensor> cu_seqlens = {};
  // The tokens seen so far: the new tokens follow them and are added, and no gradient reaches the earlier ones.
  ModelState* state = nullptr;
  // [B, M, width], the sequence that layers with `memory` attend to, and its lengths as above.
  at::Tensor memory = {};
  std::optional<at::Tensor> memory_lengths = {};
  Dropout dropout = {};  // none: as in evaluation
  const Tap* tap = nullptr;

  // For the layer `index`: its state, independent dropout, its number for the tap.
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
  // The value that the pass continues with.
  at::Tensor tapped(TapPlace place, const at::Tensor& value) const {
    return tap != nullptr ? (*tap)(place, site, value) : value;
  }
};

}  // namespace cogwheel
