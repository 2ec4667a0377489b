// What heads look at, on random tokens that come twice: t1 … tn t1 … tn. Elhage et al., "A Mathematical Framework for
// Transformer Circuits" (2021); Olsson et al., "In-context Learning and Induction Heads" (2022).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

struct HeadScores {
  // [layers, heads], each the mean weight over the tokens of the second half, or of its magnitude: signed weights may
  // cancel. NaN in layers that show no weights.
  struct Score {
    at::Tensor weight, magnitude;
  };
  Score previous;   // to the token before
  Score duplicate;  // to the same token of the first half
  Score induction;  // to the token after that
};

// [sequences, 2 · length] int64: the second half of each row repeats the first.
at::Tensor repeated_tokens(std::int64_t vocabulary, std::int64_t sequences, std::int64_t length, std::uint64_t seed);

// Of tokens as repeated_tokens makes them, which must fit into the context. Throws UsageError for a model that shows
// no weights, and for tokens whose halves differ.
HeadScores head_scores(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens);

}  // namespace cogwheel::interpret
