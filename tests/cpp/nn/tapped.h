// The values at a tap place of a layer or a model.
#pragma once
#include <vector>

#include "cogwheel/nn/attention_layer.h"
#include "cogwheel/nn/head_observer.h"

namespace cogwheel {

// One for each layer of the pass, in order.
template <class Module, class Input>
std::vector<at::Tensor> tapped(TapPlace place, Module& module, const Input& x, ForwardContext context = {}) {
  std::vector<at::Tensor> values;
  Tap tap;
  tap.read(place, [&](TapSite, const at::Tensor& value) { values.push_back(value); });
  context.tap = &tap;
  module->forward(x, context);
  return values;
}

inline at::Tensor weights_of(AttentionLayer& layer, const at::Tensor& x) {
  return tapped(TapPlace::weights, layer, x).at(0);
}

}  // namespace cogwheel
