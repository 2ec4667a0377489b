#include "cogwheel/interpret/head_scores.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

at::Tensor repeated_tokens(std::int64_t vocabulary, std::int64_t sequences, std::int64_t length, std::uint64_t seed) {
  expect_within("repeated tokens: length of a half", length, Range<std::int64_t>{2, 1 << 20});
  expect_within("repeated tokens: sequences", sequences, Range<std::int64_t>{1, 1 << 20});
  at::Tensor tokens = at::empty({sequences, 2 * length}, at::kLong);
  for (std::int64_t row = 0; row < sequences; ++row) {
    NumberedDraws draws(seed, stream_named("head"), static_cast<std::uint64_t>(row));
    auto* const drawn = tokens.data_ptr<std::int64_t>() + row * 2 * length;
    for (std::int64_t place = 0; place < length; ++place)
      drawn[place] = drawn[length + place] =
          static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(vocabulary)));
  }
  return tokens;
}

HeadScores head_scores(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  const torch::NoGradGuard no_gradient;
  const std::int64_t length = tokens.dim() == 2 ? tokens.size(1) / 2 : 0;
  if (length < 2 || !tokens.narrow(1, 0, length).equal(tokens.slice(1, length)))
    throw UsageError(expected_got("head scores: tokens", "rows whose second half repeats the first",
                                  length < 2 ? shape_text(tokens.sizes()) : "others"));
  std::map<std::int64_t, at::Tensor> patterns;  // [B, heads, N, N]
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::pattern,
             [&](const nn::HookPoint& at, const at::Tensor& value) { patterns[at.layer] = value; });
  model.forward(tokens, {.hooks = &hooks});
  if (patterns.empty()) throw UsageError(expected_got("head scores: model", "one with weights of heads", "none"));

  const auto layers = static_cast<std::int64_t>(model.layers().size());
  std::int64_t heads = 0;
  for (const auto& [layer, pattern] : patterns) heads = std::max(heads, pattern.size(1));
  const auto score = [&](std::int64_t back) {
    const auto empty = [&] { return at::full({layers, heads}, std::nan(""), at::kDouble); };
    HeadScores::Score found{empty(), empty()};
    for (const auto& [layer, pattern] : patterns) {
      // Row i reads i − back: the diagonal that far below, from the second half on.
      const at::Tensor weights =
          pattern.diagonal(-back, 2, 3).slice(2, length - back).to(at::kDouble);  // [B, heads, length]
      found.weight[layer].narrow(0, 0, pattern.size(1)).copy_(weights.mean(at::IntArrayRef({0, 2})));
      found.magnitude[layer].narrow(0, 0, pattern.size(1)).copy_(weights.abs().mean(at::IntArrayRef({0, 2})));
    }
    return found;
  };
  return {.previous = score(1), .duplicate = score(length), .induction = score(length - 1)};
}

}  // namespace cogwheel::interpret
