// Text from a model, token by token.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cogwheel/models/language_model.h"
#include "cogwheel/models/token.h"

namespace cogwheel {

struct SamplingOptions {
  std::int64_t length = 200;  // tokens to generate
  double temperature = 1.0;   // 0: always the likeliest
  std::int64_t top_k = 0;     // draw among the k likeliest; 0: among all
  std::uint64_t seed = 1337;
};

// Throws UsageError naming the first option that cannot be.
void check(const SamplingOptions& options);

// The generated tokens, without the prompt. The model sees the last `context` tokens. An empty prompt starts from
// token 0. The same model, prompt and options give the same tokens. `on_token` is called as each one is drawn and
// ends the sampling when it returns false.
std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const SamplingOptions& options,
                          const std::function<bool(Token)>& on_token = {});

}  // namespace cogwheel
