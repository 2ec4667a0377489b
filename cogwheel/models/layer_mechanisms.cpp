#include "cogwheel/models/layer_mechanisms.h"

#include <algorithm>
#include <limits>

#include "cogwheel/mechanisms/layer_pattern.h"

namespace cogwheel {

std::string LayerMechanisms::at(std::int64_t layer) const {
  const bool outer = layer < first_softmax_layers || layer >= layers - last_softmax_layers;
  return outer ? "softmax" : std::string(LayerPattern(pattern).at(layer).description.name);
}

std::int64_t output_heads_of(std::string_view pattern, std::int64_t heads) {
  int sub_heads = std::numeric_limits<int>::max();
  for (const Mechanism* mechanism : LayerPattern(pattern).mechanisms())
    sub_heads = std::min(sub_heads, mechanism->sub_heads());
  return heads / sub_heads;
}

MechanismText text_of(std::string_view pattern, std::string_view what) {
  const LayerPattern layers(pattern, what);
  return {.title = layers.title(), .formula = layers.formula(), .definition = std::string(layers.definition())};
}

}  // namespace cogwheel
