// Beam search over a model that translates, for many sources at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/tasks/translation/beam_search_options.h"
#include "cogwheel/tasks/translation/translator.h"

namespace cogwheel::tasks::translation {

struct Translation {
  std::vector<Token> tokens;  // without the end
  double log_probability = 0;
  bool ended = true;  // false: cut at the longest
};

// sources [B, S] int64, lengths [B] int64. `begin` and `end` are the tokens before and after a target. Among equal
// hypotheses that of the better parent wins, then the lower token: the same model and sources give the same result.
std::vector<Translation> beam_search(Translator& model, const at::Tensor& sources, const at::Tensor& lengths,
                                     Token begin, Token end, const BeamOptions& options = {});

// The weights of the alignment (Translator::source_weights) while the model makes these translations, each token from
// those before it: [B, heads, T, S] for the T − 1 tokens of the longest, and what comes after them, if the model can
// read so many; zero beyond the tokens of each and its end. Throws UsageError where the model aligns nothing.
at::Tensor alignment_weights(Translator& model, const at::Tensor& sources, const at::Tensor& lengths, Token begin,
                             std::span<const Translation> translations, std::optional<std::int64_t> layer = {});

}  // namespace cogwheel::tasks::translation
