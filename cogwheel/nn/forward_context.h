// The one argument, besides its input, that is passed through every layer of a model.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/hooks/hooks.h"
#include "cogwheel/nn/states/layer_state.h"

namespace cogwheel::nn {

class SharedHeads;
class SharedTexts;

// What the queries, keys or values of each head are made of, normalised: [B, N, heads, W].
struct HeadInput {
  at::Tensor hooked;      // undefined where hooks neither change it nor need its derivatives
  at::Tensor given = {};  // as it was; undefined where hooks changed it

  bool changed() const { return hooked.defined() && !given.defined(); }
};
struct HeadInputs {
  HeadInput query, key, value;
};

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
  // Ranks that share the texts, of whose tokens each has a part, with their positions: cu_seqlens are of the whole.
  // Every rank makes the same pass. Not with lengths, a state or hooks.
  const SharedTexts* texts = nullptr;
  // Ranks that share the heads of attention and the hidden units of feed-forward layers, which they divide: what goes
  // from layer to layer is alike on all. Each has a part of the loss, and of every gradient. Not with a state or hooks.
  const SharedHeads* heads = nullptr;
  Dropout dropout = {};  // none: as in evaluation
  const Hooks* hooks = nullptr;

  // For the layer `index`: its state, independent dropout, its number for hooks.
  ForwardContext at_layer(std::size_t index) const {
    ForwardContext inner = *this;
    inner.site.layer = static_cast<std::int64_t>(index);
    inner.layer_state = state != nullptr ? &(*state)[index] : nullptr;
    inner.dropout = dropout.part(index + 1);
    return inner;
  }
  struct Site {
    std::int64_t layer = -1;
    bool memory = false;  // in the attention of a layer to the memory
  };
  Site site = {};
  // In place of the layer's input, where hooks see single heads' inputs.
  const HeadInputs* head_inputs = nullptr;
  LayerState* layer_state = nullptr;

  bool wants(HookPlace place) const { return hooks != nullptr && hooks->wants(place, site.layer); }
  bool replaces(HookPlace place) const { return hooks != nullptr && hooks->replaces(place, site.layer); }
  // What hooks give in the place of a value that is then not computed; else undefined.
  at::Tensor supplied(HookPlace place) const {
    return hooks != nullptr ? hooks->supplied({place, site.layer, site.memory}) : at::Tensor();
  }
  // Whether what hooks made of a value has other numbers: else the pass goes on with what it would have without hooks.
  bool changed(HookPlace place, const at::Tensor& before, const at::Tensor& after) const {
    return hooks != nullptr && hooks->changed(place, site.layer, before, after);
  }
  // The value that the pass continues with.
  at::Tensor hooked(HookPlace place, at::Tensor value) const {
    return hooks != nullptr ? (*hooks)({place, site.layer, site.memory}, std::move(value)) : value;
  }
};

}  // namespace cogwheel::nn
