// Text from a model, token by token.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/models/token.h"

namespace cogwheel {

class LanguageModel;

struct SamplingOptions {
  std::int64_t length = 200;  // tokens to generate
  double temperature = 1.0;   // 0: always the likeliest
  std::int64_t top_k = 0;     // draw among the k likeliest; 0: among all
  std::uint64_t seed = 1337;
};

// What they may be.
inline constexpr Range<std::int64_t> length_range{0, 1'000'000}, top_k_range{0, 1 << 24};
inline constexpr Range<double> temperature_range{0, 1000};
inline constexpr Range<std::uint64_t> sampling_seed_range{0, std::numeric_limits<std::uint64_t>::max()};

// Throws UsageError naming the first option that cannot be.
void check(const SamplingOptions& options);

// The generated tokens, without the prompt. The model sees the last `context` tokens. An empty prompt starts from
// token 0. Up to the context, keys and values of earlier tokens are kept; beyond it, every token has another position
// at each step, and a step costs a pass over the whole window, as it always does where the model cannot decode. The
// same model, prompt and options give the same tokens. `on_token` is called as each one is drawn and ends the sampling
// when it returns false.
std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const SamplingOptions& options,
                          const std::function<bool(Token)>& on_token = {});

}  // namespace cogwheel
