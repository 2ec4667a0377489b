// What a language model loses by weights, keys and values of fewer bits.
#pragma once
#include <cstdint>
#include <vector>

#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/inspection.h"

namespace cogwheel::tasks::language {

class LanguageModel;

// So many held-out tokens tell it.
inline constexpr std::int64_t narrowing_cost_tokens = 32'768;

// Each window is read as one text, from its beginning: in float32, and with the numbers kept, where each token meets
// the keys and values of those before it and its own as the cache keeps them, as in decoding. Signs are those of the
// first tokens of a few windows. Throws UsageError where nothing is narrow, or a cache that no layer has.
runs::NarrowingCost narrowing_cost(LanguageModel& model, const runs::Batch& windows, const runs::KeptNumbers& kept);

// NarrowingCost::past_context of windows that follow each other: up to some texts of 16 contexts, evenly spread, each
// read as the generator reads a prompt past the context. Throws UsageError where there is none, or the model has an
// end.
std::vector<double> losses_past_context(LanguageModel& model, const runs::Batch& windows,
                                        const runs::KeptNumbers& kept);

}  // namespace cogwheel::tasks::language
