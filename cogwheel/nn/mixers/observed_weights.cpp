#include "cogwheel/nn/mixers/observed_weights.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <string_view>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/derivative_path.h"
#include "cogwheel/ops/pairwise/mixture.h"
#include "cogwheel/ops/pairwise/scores.h"

namespace cogwheel::nn {
namespace {

// [B, 1, N, M]: whether a query does not see a key, whatever their numbers.
at::Tensor hidden_keys(const WeighedHeads& heads) {
  const at::NoGradGuard no_gradient;
  const auto nothing = [](const at::Tensor& like) {  // of one head, of the least width
    return at::zeros({like.size(0), 1, like.size(2), 8}, like.options());
  };
  return ops::attention_scores(nothing(heads.query), nothing(heads.key), "softmax",
                               {.causal = heads.options.causal,
                                .window = heads.options.window,
                                .key_lengths = heads.options.key_lengths,
                                .first_positions = heads.options.first_positions,
                                .cu_seqlens = heads.options.cu_seqlens})
      .isneginf();
}

// What hooks make of weights, [B, H, N, M]: 0 where keys are hidden, whatever they say, and so is the gradient.
ObservedWeights hooked_weights(HookPlace place, const at::Tensor& made, const WeighedHeads& heads,
                               const ForwardContext& context) {
  at::Tensor weights = context.hooked(place, made);
  if (context.replaces(place)) weights = weights.masked_fill(hidden_keys(heads), 0);
  return {weights, context.changed(place, made, weights)};
}

ObservedWeights observed_members(const WeighedHeads& heads, const ForwardContext& context) {
  const bool of_scores = context.wants(HookPlace::scores),
             of_members = heads.mechanism.sub_heads() == 2 && (of_scores || context.wants(HookPlace::pattern_members));
  const auto whole = [&]() -> ObservedWeights {
    return {ops::attention_weights(heads.query, heads.key, heads.mechanism.operator_name, heads.options)};
  };
  if (!of_scores && !of_members) return whole();
  if (of_members && heads.options.dropout > 0)
    throw UsageError(expected_got("hooks: scores and members of " + std::string(heads.mechanism.description.name),
                                  "a pass without dropout", "one with"));
  at::Tensor scores;
  bool changed = false;
  if (of_scores) {
    const at::Tensor made = ops::attention_scores(heads.query, heads.key, heads.mechanism.operator_name, heads.options);
    scores = context.hooked(HookPlace::scores, made);
    changed = context.changed(HookPlace::scores, made, scores);
    if (heads.mechanism.is_matrix()) {
      if (changed)
        throw UsageError(expected_got("attn.hook_attn_scores of " + std::string(heads.mechanism.description.name),
                                      "scores as they are: a function of the whole matrix reads queries", "others"));
      return whole();
    }
  }
  // Where hooks only read, weights are those that the kernel makes of queries and keys, whatever else is read.
  const auto kept = [&](const auto& made, const at::Tensor& seen, const auto& path) {
    return changed ? path() : seen.defined() ? with_derivatives_of(made(), {seen}, path) : made();
  };
  if (!of_members)
    return {
        kept([&] { return whole().value; }, scores,
             [&] { return ops::attention_weights_of_scores(scores, heads.mechanism.operator_name, heads.options); }),
        changed};
  // The maps of a difference are those of its member, which has no λ.
  ops::AttentionOptions of_map = heads.options;
  of_map.parameters = heads.learned;
  if (of_map.alibi) of_map.alibi = of_map.alibi->repeat_interleave(2);
  const std::string_view member = heads.mechanism.pairwise()->member;
  const auto of_keys = [&] {
    // Of keys that heads share, a sub-head reads the one of its own number, which a row map alone does not know.
    const std::int64_t groups = heads.key.size(1) / 2, sharing = heads.query.size(1) / heads.key.size(1);
    const at::Tensor key =
        sharing == 1 ? heads.key : heads.key.unflatten(1, {groups, 2}).repeat_interleave(sharing, 1).flatten(1, 2);
    return ops::attention_weights(heads.query, key, member, of_map);
  };
  const ObservedWeights members = hooked_weights(
      HookPlace::pattern_members,
      kept(of_keys, scores, [&] { return ops::attention_weights_of_scores(scores, member, of_map); }), heads, context);
  changed = changed || members.changed;
  const auto difference = [&] {
    const at::Tensor lambda = heads.options.parameters.back().second.view({1, -1, 1}).to(members.value.scalar_type());
    return ops::subtract_sub_heads(members.value, lambda);
  };
  return {kept([&] { return whole().value; }, members.value, difference), changed};
}

}  // namespace

ObservedWeights observed_weights(const WeighedHeads& heads, const ForwardContext& context) {
  const auto [members, changed] = observed_members(heads, context);
  ObservedWeights weights = hooked_weights(HookPlace::pattern, members, heads, context);
  weights.changed = weights.changed || changed;
  return weights;
}

}  // namespace cogwheel::nn
