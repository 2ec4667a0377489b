// The text that studies read, in the tokens of each run.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/research/inspect/study.h"

namespace cogwheel::inspect {

// As text/text_tokens.h reads it. Throws UsageError also for a run whose task has no tokenizer, and fewer than two
// tokens.
std::vector<Token> tokens_of_text(const StudiedRun& run, std::string_view text, std::string_view what);

// The first `count` tokens of the run's text, [1, N] int64, as far as its context holds them.
at::Tensor token_row(const StudiedRun& run, std::int64_t count);
// The same as they are shown, a word each.
std::vector<std::string> token_labels(const StudiedRun& run, std::int64_t count);

// Where no text is given. It was written for this, so no model was trained with it.
inline constexpr const char* study_text =
    "A reader who meets a pronoun looks back for the name to which it points. A network that reads a sentence one word "
    "at a time has to carry every name along, in case somebody asks for it later; one with attention looks back when "
    "it needs to. For each word it asks a question, compares the question with a label on every word before, and "
    "collects from these words in proportion to how well they answer. Nothing in this says that the proportions have "
    "to "
    "be positive. If a word is known to be misleading, it would help to take its part away, and a weight below zero "
    "does this at once, where positive weights can only look elsewhere.\n"
    "Whether networks make use of such freedom is a question for measurement. Two of them, alike but for the rule that "
    "turns comparisons into weights, can be trained with the same words in the same order. Then one can look at what "
    "each head attends to, change a single weight, and watch the answer follow or stay.\n";

}  // namespace cogwheel::inspect
