#include "cogwheel/interpret/patching.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {
namespace {

// Where heads and tokens are in the values of a place; a place without heads has none.
struct Dimensions {
  std::int64_t heads = -1, tokens = 1;
};

Dimensions dimensions_of(nn::HookPlace place) {
  const nn::HookPlaceDescription& description = nn::hook_places()[static_cast<std::size_t>(place)];
  if (description.owner != nn::HookOwner::layer || !description.replaceable)
    throw UsageError(expected_got("patching: place", "one of layers that can be replaced", description.name));
  if (description.shape.ends_with(", N, M]")) return {.heads = 1, .tokens = 2};
  // [B, N, W] and [B, N, 1] have no heads.
  return {.heads = std::count(description.shape.begin(), description.shape.end(), ',') == 3 ? 2 : -1, .tokens = 1};
}

// One value of a place: a head, a token, or all.
at::Tensor part_of(const at::Tensor& value, const Dimensions& at, std::int64_t head, std::int64_t token) {
  at::Tensor part = value;
  if (at.heads >= 0) part = part.narrow(at.heads, head, 1);
  return token >= 0 ? part.narrow(at.tokens, token, 1) : part;
}

// ValuesByLayer by layer.
using ValuesByLayer = std::map<std::int64_t, at::Tensor>;

double mean_difference(const at::Tensor& logits, const Prompts& prompts) {
  return logit_difference(logits, prompts).mean(at::kDouble).item<double>();
}

nn::Hooks reading(nn::HookPlace place, ValuesByLayer& values) {
  nn::Hooks hooks;
  hooks.read(place, [&values](const nn::HookPoint& at, const at::Tensor& value) { values[at.layer] = value; });
  return hooks;
}

at::Tensor no_results(const tasks::language::LanguageModelImpl& model, const ValuesByLayer& values,
                      const Dimensions& at, bool by_token) {
  if (values.empty()) throw UsageError(expected_got("patching: place", "one that the model has", "another"));
  const at::Tensor& any = values.begin()->second;
  return at::full({static_cast<std::int64_t>(model.layers().size()), at.heads < 0 ? 1 : any.size(at.heads),
                   by_token ? any.size(at.tokens) : 1},
                  std::nan(""), at::kDouble);
}

}  // namespace

at::Tensor Patching::restored() const {
  if (clean == corrupted || !std::isfinite(clean - corrupted))
    throw UsageError(expected_got("patching", "prompts whose logit differences the corruption changes",
                                  std::to_string(clean) + " for both"));
  return (patched - corrupted) / (clean - corrupted);
}

Patching patch_activations(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                           const PatchingOptions& options) {
  const torch::NoGradGuard no_gradient;
  clean.check(model.options().vocabulary, corrupted);
  const Dimensions at = dimensions_of(options.place);
  ValuesByLayer of_clean, streams;
  Patching found;
  const nn::Hooks reads = reading(options.place, of_clean);
  found.clean = mean_difference(model.forward(clean.tokens, {.hooks = &reads}), clean);
  const nn::Hooks keeps = reading(nn::HookPlace::stream_before, streams);
  found.corrupted = mean_difference(model.forward(corrupted, {.hooks = &keeps}), clean);
  found.patched = no_results(model, of_clean, at, options.by_token);
  for (const auto& [layer, value] : of_clean)
    for (std::int64_t head = 0; head < found.patched.size(1); ++head)
      for (std::int64_t token = 0; token < found.patched.size(2); ++token) {
        const auto part = [&](const at::Tensor& of) { return part_of(of, at, head, options.by_token ? token : -1); };
        nn::Hooks hooks;
        hooks.replace(
            options.place,
            [&](const nn::HookPoint&, const at::Tensor& given) {
              at::Tensor patched = given.clone();
              part(patched).copy_(part(value));
              return patched;
            },
            layer);
        found.patched[layer][head][token] =
            mean_difference(model.forward_from(layer, streams.at(layer), {.hooks = &hooks}), clean);
      }
  return found;
}

Patching attribute_patches(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                           const PatchingOptions& options) {
  clean.check(model.options().vocabulary, corrupted);
  const Dimensions at = dimensions_of(options.place);
  ValuesByLayer of_clean, of_corrupted;
  Patching found;
  {
    const torch::NoGradGuard no_gradient;
    const nn::Hooks reads = reading(options.place, of_clean);
    found.clean = mean_difference(model.forward(clean.tokens, {.hooks = &reads}), clean);
  }
  // Each value gets a zero added whose gradient is its own, whether parameters have gradients or not.
  const torch::AutoGradMode with_gradients(true);
  ValuesByLayer zeros;
  nn::Hooks hooks;
  hooks.replace(options.place, [&](const nn::HookPoint& point, const at::Tensor& value) {
    of_corrupted[point.layer] = value.detach();
    zeros[point.layer] = at::zeros_like(value).requires_grad_(true);
    return value + zeros[point.layer];
  });
  const at::Tensor difference = logit_difference(model.forward(corrupted, {.hooks = &hooks}), clean);
  found.corrupted = difference.mean(at::kDouble).item<double>();
  found.patched = no_results(model, of_clean, at, options.by_token);
  std::vector<at::Tensor> inputs;
  for (const auto& [layer, zero] : zeros) inputs.push_back(zero);
  const auto gradients = torch::autograd::grad({difference.mean()}, inputs);
  std::size_t index = 0;
  for (const auto& [layer, zero] : zeros) {
    const at::Tensor &one = of_clean.at(layer), &other = of_corrupted.at(layer);
    // Hidden keys have scores of −∞ in both.
    at::Tensor change = gradients[index++] * at::where(one == other, at::zeros_like(one), one - other);
    for (std::int64_t dimension = change.dim() - 1; dimension >= 0; --dimension)
      if (dimension != at.heads && (dimension != at.tokens || !options.by_token)) change = change.sum(dimension, true);
    if (at.heads > at.tokens) change = change.transpose(at.heads, at.tokens);
    found.patched[layer].copy_(change.reshape({found.patched.size(1), found.patched.size(2)}).to(at::kDouble) +
                               found.corrupted);
  }
  return found;
}

}  // namespace cogwheel::interpret
