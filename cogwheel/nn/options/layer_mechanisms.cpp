#include "cogwheel/nn/options/layer_mechanisms.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"

namespace cogwheel::nn {

std::string LayerMechanisms::at(std::int64_t layer) const {
  const bool outer = layer < first_softmax_layers || layer >= layers - last_softmax_layers;
  return outer ? "softmax" : std::string(LayerPattern(pattern).at(layer).description.name);
}

void check(const LayerMechanisms& mechanisms, std::string_view what) {
  const LayerPattern pattern(mechanisms.pattern, what);
  const std::vector<std::string> names = names_of_pattern(mechanisms.pattern, what);
  if (pattern.period() > mechanisms.layers) {
    std::string shorter;  // one layer of each
    for (const std::string& name : names) shorter += (shorter.empty() ? "" : "+") + name;
    const bool fits = std::ssize(names) <= mechanisms.layers;
    throw UsageError(expected_got(what,
                                  "a hybrid of at most " + std::to_string(mechanisms.layers) +
                                      ", the layers of the model" + (fits ? ", such as " + shorter : ""),
                                  std::string(mechanisms.pattern) + ", of " + std::to_string(pattern.period())));
  }
  std::set<std::string> found;
  for (std::int64_t layer = 0; layer < mechanisms.layers; ++layer) found.insert(mechanisms.at(layer));
  for (const std::string& name : names)
    if (!found.contains(name))
      throw UsageError(
          expected_got(what, "mechanisms that a layer has beside those of first_softmax_layers and last_softmax_layers",
                       name + ", which none has"));
}

std::int64_t output_heads_of(std::string_view pattern, std::int64_t heads) {
  int sub_heads = std::numeric_limits<int>::max();
  for (const Mechanism* mechanism : LayerPattern(pattern).mechanisms())
    sub_heads = std::min(sub_heads, mechanism->sub_heads());
  return heads / sub_heads;
}

MechanismText text_of(const LayerMechanisms& mechanisms, std::string_view what) {
  check(mechanisms, what);
  MechanismText text = text_of(mechanisms.pattern, what);
  const LayerPattern pattern(mechanisms.pattern, what);
  const std::int64_t last = mechanisms.layers - 1;
  bool cogformer = pattern.period() == mechanisms.layers && last >= 2;
  for (std::int64_t layer = 0; cogformer && layer <= last; ++layer)
    cogformer = pattern.at(layer).description.name == (layer == 0 || layer == last ? "softmax" : "cog");
  if (cogformer) text.title = "Cogformer";
  return text;
}

MechanismText text_of(std::string_view pattern, std::string_view what) {
  const LayerPattern layers(pattern, what);
  return {.title = layers.title(), .formula = layers.formula(), .definition = std::string(layers.definition())};
}

}  // namespace cogwheel::nn
