// How much each part of a model adds to a logit difference: what it writes into the residual stream, seen through the
// last norm, whose scale stays that of the pass, and the unembedding. Elhage et al., "A Mathematical Framework for
// Transformer Circuits" (2021).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/interpret/prompts.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

struct LogitAttribution {
  // "embedding", "position embedding", "L0H0" and so on, "L0 attention" for a layer without heads or its bias,
  // "L0 feed-forward", and "biases" of the last norm and the head.
  std::vector<std::string> parts;
  at::Tensor values;  // [parts, B], which sum to the logit difference of each prompt
};

LogitAttribution attribute_logits(tasks::language::LanguageModelImpl& model, const Prompts& prompts);

}  // namespace cogwheel::interpret
