// The most probable text after a prompt, as far as a beam search finds it.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "cogwheel/core/token.h"
#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/text/beam_search.h"

namespace cogwheel::tasks::language {

class LanguageModel;

// Up to `length` tokens, `end` included, by the model's own probabilities; hypotheses of n tokens are worth log p / n,
// which without `end` is the same as log p. Each hypothesis has a state of its own, and a pass of its own beside the
// others (nn/weights/joined_products.h); one that parts into several is copied for all but the last. Throws UsageError
// Of tokens, only those below `vocabulary`, unless that is 0. Throws UsageError
// where the prompt and the text could outgrow the context, and for a model that cannot decode.
text::Hypothesis most_probable(LanguageModel& model, std::span<const Token> prompt, std::int64_t length,
                               std::int64_t beam, std::optional<Token> end, const std::function<bool()>& go_on = {},
                               nn::NumberType cache = nn::NumberType::float32, std::int64_t vocabulary = 0);

}  // namespace cogwheel::tasks::language
