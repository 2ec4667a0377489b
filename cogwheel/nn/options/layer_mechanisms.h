// The mechanisms of a transformer's layers, as its options say them: a pattern (attention/mechanisms/layer_pattern.h),
// but for softmax at both ends.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cogwheel/nn/options/mechanism_text.h"

namespace cogwheel::nn {

struct LayerMechanisms {
  std::string_view pattern;
  std::int64_t layers;
  std::int64_t first_softmax_layers, last_softmax_layers;

  std::string at(std::int64_t layer) const;  // counted from 0
};

// Throws UsageError where the model has not what the pattern says: where it ends before the pattern does, or where
// softmax at the ends leaves some mechanism no layer.
void check(const LayerMechanisms& mechanisms, std::string_view what);

// Of the layer with most of them; `heads` are those of a softmax layer.
std::int64_t output_heads_of(std::string_view pattern, std::int64_t heads);
// Of a pattern by itself, and of the layers of a model, in which a hybrid may be one that has a name: Cog between a
// first and a last layer of softmax is a Cogformer (Lv et al. 2024). Throw UsageError that names `what`, the latter as
// `check` does.
MechanismText text_of(std::string_view pattern, std::string_view what);
MechanismText text_of(const LayerMechanisms& mechanisms, std::string_view what);

}  // namespace cogwheel::nn
