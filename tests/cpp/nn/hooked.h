// The values at a place of a layer or a model.
#pragma once
#include <vector>

#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/mixers/attention_layer.h"

namespace cogwheel::nn {

// One for each layer of the pass, in order.
template <class Module, class Input>
std::vector<at::Tensor> hooked(HookPlace place, Module& module, const Input& x, ForwardContext context = {}) {
  std::vector<at::Tensor> values;
  Hooks hooks;
  hooks.read(place, [&](const HookPoint&, const at::Tensor& value) { values.push_back(value); });
  context.hooks = &hooks;
  module->forward(x, context);
  return values;
}

inline at::Tensor weights_of(AttentionLayer& layer, const at::Tensor& x) {
  return hooked(HookPlace::pattern, layer, x).at(0);
}

}  // namespace cogwheel::nn
