// Text from a model, token by token.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/runs/sampler.h"

namespace cogwheel::tasks::language {

class LanguageModel;

// The generated tokens, without the prompt. The model sees the last `context` tokens, or all where no layer keeps keys
// and no table positions (LanguageModel::longest_text). An empty prompt starts from token 0. What layers carry of
// earlier tokens is kept; beyond the context, every token changes its position at each step, so that a step costs a
// pass over the whole window, as it always does for a model that cannot decode. The same model, prompt and options give
// the same tokens. `on_token` is called with each token as it is drawn and ends the sampling by returning false.
std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const runs::SamplingOptions& options,
                          const std::function<bool(Token)>& on_token = {});

}  // namespace cogwheel::tasks::language
