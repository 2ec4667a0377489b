#include "cogwheel/tasks/language/narrowing_cost.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"

namespace cogwheel::tasks::language {
namespace {

// Scores of these are kept from one pass to the other.
constexpr std::int64_t windows_of_signs = 8, tokens_of_signs = 256;

struct Losses {
  double sum;
  at::Tensor likeliest;  // of the tokens that have a target
};

Losses losses_of(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor rows = logits.flatten(0, 1).to(at::kCPU, at::kFloat),
                   told = (targets.flatten() != ignored_target).nonzero();
  const at::Tensor read = rows.index_select(0, told.flatten());
  return {at::cross_entropy_loss(read, targets.flatten().index_select(0, told.flatten()), {}, at::Reduction::Sum)
              .item<double>(),
          read.argmax(1)};
}

// Of each layer with scores, −1, 0 or 1; of scores also −2 where the key is hidden.
struct Signs {
  std::map<std::int64_t, at::Tensor> scores, weights;
  bool negative_weights = false;
};

class FlippedSigns {
 public:
  // How many of `before` are another in `now`, where `counts` says so.
  void add(const at::Tensor& before, const at::Tensor& now, const at::Tensor& counts) {
    flipped_ += (before != now).logical_and_(counts).sum().item<double>();
    all_ += counts.sum().item<double>();
  }
  std::optional<double> share() const { return all_ > 0 ? std::optional(flipped_ / all_) : std::nullopt; }

 private:
  double flipped_ = 0, all_ = 0;
};

}  // namespace

runs::NarrowingCost narrowing_cost(LanguageModel& model, const runs::Batch& windows, const runs::KeptNumbers& kept) {
  if (!kept.narrow()) throw UsageError(expected_got("weights, cache", "one of them as bf16 or int8", "neither"));
  const torch::NoGradGuard no_grad;
  const auto narrow = narrow_weights(model, kept.weights);
  const bool with_cache = kept.cache != nn::NumberType::float32;
  model->expect_kept_keys(kept.cache);
  const auto pass = [&](const at::Tensor& tokens, bool as_kept, const nn::Hooks* hooks) {
    const nn::NarrowProducts products(as_kept ? narrow.get() : nullptr);
    if (!as_kept || !with_cache) return model->forward(tokens, {.hooks = hooks});
    nn::ModelState state = model->make_state(1, kept.cache);
    return model->forward(tokens, {.state = &state, .hooks = hooks});
  };
  const auto signs = [&](const at::Tensor& tokens, bool as_kept) {
    Signs found;
    nn::Hooks hooks;
    for (std::size_t layer = 0; layer < model->layers().size(); ++layer) {
      if (!model->layers()[layer]->has_hook(nn::HookPlace::scores)) continue;
      const auto index = static_cast<std::int64_t>(layer);
      hooks.read(
          nn::HookPlace::scores,
          [&](const nn::HookPoint& at, const at::Tensor& scores) {
            found.scores[at.layer] = scores.sign().to(at::kChar).masked_fill_(scores.isneginf(), -2);
          },
          index);
      hooks.read(
          nn::HookPlace::pattern,
          [&](const nn::HookPoint& at, const at::Tensor& weights) {
            found.weights[at.layer] = weights.sign().to(at::kChar);
            found.negative_weights = found.negative_weights || weights.lt(0).any().item<bool>();
          },
          index);
    }
    pass(tokens, as_kept, &hooks);
    return found;
  };

  runs::NarrowingCost cost{.kept = kept};
  double loss = 0, kept_loss = 0, others = 0;
  FlippedSigns of_scores, of_weights;
  bool negative_weights = false;
  for (std::int64_t window = 0; window < windows.inputs.size(0); ++window) {
    const at::Tensor tokens = windows.inputs.narrow(0, window, 1), targets = windows.targets.narrow(0, window, 1);
    const Losses before = losses_of(pass(tokens, false, nullptr), targets),
                 now = losses_of(pass(tokens, true, nullptr), targets);
    loss += before.sum;
    kept_loss += now.sum;
    others += (before.likeliest != now.likeliest).sum().item<double>();
    cost.tokens += before.likeliest.numel();
    if (window >= windows_of_signs) continue;
    const at::Tensor first = tokens.narrow(1, 0, std::min(tokens_of_signs, tokens.size(1)));
    const Signs signs_before = signs(first, false), signs_now = signs(first, true);
    negative_weights = negative_weights || signs_before.negative_weights;
    for (const auto& [layer, sign] : signs_before.scores) of_scores.add(sign, signs_now.scores.at(layer), sign != -2);
    for (const auto& [layer, sign] : signs_before.weights) {
      const at::Tensor& other = signs_now.weights.at(layer);
      of_weights.add(sign, other, (sign != 0).logical_or(other != 0));
    }
  }
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, cost.tokens));
  cost.loss = loss / tokens;
  cost.kept_loss = kept_loss / tokens;
  cost.other_next = others / tokens;
  cost.flipped_scores = of_scores.share();
  if (negative_weights) cost.flipped_weights = of_weights.share();
  return cost;
}

std::vector<double> losses_past_context(LanguageModel& model, const runs::Batch& windows,
                                        const runs::KeptNumbers& kept) {
  constexpr std::int64_t contexts = 16, most_texts = 8;
  const torch::NoGradGuard no_grad;
  model->expect_endless();
  const std::int64_t context = model->options().context, texts = windows.inputs.size(0) / contexts;
  if (kept.sink >= context)
    throw UsageError(
        expected_got("sink", "fewer than the context of " + std::to_string(context), std::to_string(kept.sink)));
  if (texts == 0)
    throw UsageError(expected_got("sink", "held-out texts of " + std::to_string(contexts) + " contexts",
                                  std::to_string(windows.inputs.size(0)) + " contexts"));
  const auto narrow = narrow_weights(model, kept.weights);
  const nn::NarrowProducts products(narrow.get());
  const std::int64_t measured = std::min(texts, most_texts);
  std::vector<double> sums(contexts);
  for (std::int64_t text = 0; text < measured; ++text) {
    const auto part = [&](const at::Tensor& of) {
      return of.narrow(0, text * texts / measured * contexts, contexts).reshape({1, -1});
    };
    const at::Tensor tokens = part(windows.inputs), targets = part(windows.targets);
    nn::ModelState state = model->make_state(1, kept.cache);
    for (std::int64_t read = 0; read < tokens.size(1);) {
      // To the end of a context at most, so that its loss is its own.
      const std::int64_t count = std::min(make_room(model, state, kept.sink), context - read % context);
      const at::Tensor logits = model->forward(tokens.narrow(1, read, count), {.state = &state});
      sums[static_cast<std::size_t>(read / context)] += losses_of(logits, targets.narrow(1, read, count)).sum;
      read += count;
    }
  }
  for (double& sum : sums) sum /= static_cast<double>(measured * context);
  return sums;
}

}  // namespace cogwheel::tasks::language
