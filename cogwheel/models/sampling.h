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
  double temperature = 1.0;   // 0: always the most probable token
  std::int64_t top_k = 0;     // draw among the k most probable tokens; 0: among all
  std::uint64_t seed = 1337;
};

// The allowed range of each option.
inline constexpr Range<std::int64_t> length_range{0, 1'000'000}, top_k_range{0, 1 << 24};
inline constexpr Range<double> temperature_range{0, 1000};
inline constexpr Range<std::uint64_t> sampling_seed_range{0, std::numeric_limits<std::uint64_t>::max()};

// Throws UsageError that names the first invalid option.
void check(const SamplingOptions& options);

// The generated tokens, without the prompt. The model sees the last `context` tokens, or all where no layer keeps keys
// and no table positions (LanguageModel::longest_text). An empty prompt starts from token 0. What layers carry of
// earlier tokens is kept; beyond the context, every token changes its position at each step, so that a step costs a
// pass over the whole window, as it always does for a model that cannot decode. The same model, prompt and options give
// the same tokens. `on_token` is called with each token as it is drawn and ends the sampling by returning false.
std::vector<Token> sample(LanguageModel& model, std::span<const Token> prompt, const SamplingOptions& options,
                          const std::function<bool(Token)>& on_token = {});

}  // namespace cogwheel
