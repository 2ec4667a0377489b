#include "cogwheel/nn/mixers/attention_layer.h"

#include <torch/types.h>

#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/mixers/observed_weights.h"
#include "cogwheel/nn/ranks/divided_linear.h"
#include "cogwheel/nn/residual_norm.h"
#include "cogwheel/nn/states/key_value_state.h"
#include "cogwheel/nn/states/memory_state.h"
#include "cogwheel/nn/weights/derivative_path.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"

namespace cogwheel::nn {
namespace {

// [B, N, heads · head_dim] → [B, N, heads, head_dim], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}); }

// Each head by itself, [..., width], in the type of the gain, or bfloat16 where products are.
at::Tensor normed_heads(const at::Tensor& heads, const at::Tensor& gain, double epsilon) {
  return norm_of_sum(heads.to(gain.scalar_type()), {}, gain, {}, NormKind::rms, epsilon, BFloat16Products::enabled())
      .normed;
}

}  // namespace

std::optional<AttentionLayerImpl::Lambda> AttentionLayerImpl::lambda() const {
  if (!is_difference(mechanism_)) return std::nullopt;
  // at::dot has no shape function for the meta device.
  const auto product = [](const at::Tensor& a, const at::Tensor& b) {
    return a.is_meta() ? (a * b).sum() : at::dot(a, b);
  };
  const at::Tensor first = product(lambda_query1_, lambda_key1_).exp(),
                   second = product(lambda_query2_, lambda_key2_).exp();
  return Lambda{first, second, first - second + lambda_init_};
}

ops::AttentionOptions AttentionLayerImpl::operator_options(const Dropout& dropout, const SharedHeads* ranks) const {
  ops::AttentionOptions options{.causal = options_.causal && !options_.memory, .scale = {}, .parameters = learned_};
  options.score = options_.score;
  if (score_weight_.defined()) options.score_weight = score_weight_;
  if (score_projection_.defined()) options.score_projection = score_projection_;
  if (options_.window > 0) options.window = options_.window;
  if (alibi_.defined()) options.alibi = alibi_.to(output_->weight().device());
  if (const auto shared = lambda())
    options.parameters.emplace_back("lam", shared->whole.expand({options_.heads / mechanism_.sub_heads()}));
  if (dropout.rate() > 0 && !mechanism_.is_matrix()) {
    options.dropout = dropout.rate();
    options.seed = at::scalar_tensor(static_cast<std::int64_t>(dropout.seed()), at::kLong);
  }
  if (ranks == nullptr) return options;
  for (auto* const of_heads : {&options.score_weight, &options.score_projection, &options.alibi})
    if (*of_heads) *of_heads = ranks->own(**of_heads, 0);
  for (auto& [name, of_heads] : options.parameters) of_heads = ranks->own(of_heads, 0);
  if (options.seed) {
    const std::int64_t heads = options_.heads / mechanism_.sub_heads();
    options.seed = ops::DropoutSeed(*options.seed).of_part(0, 0, heads / ranks->count() * ranks->rank(), heads);
  }
  return options;
}

AttentionLayerImpl::Heads AttentionLayerImpl::project(const at::Tensor& x, const ForwardContext& context) {
  const LayerState* const state = rotary_ ? context.layer_state : nullptr;
  at::Tensor positions =
      context.positions.defined() || state == nullptr ? context.positions : ragged_positions(*state, x.size(1));
  if (positions.defined()) positions = to_device(positions, x.device());
  const std::int64_t first = positions.defined() || state == nullptr ? 0 : state->longest();
  const auto placed = [&](HookPlace place, const at::Tensor& split) {
    if (!rotary_) return split.transpose(1, 2);
    const at::Tensor turned = positions.defined() ? (*rotary_)(split, positions) : (*rotary_)(split, first);
    return context.hooked(place, turned).transpose(1, 2);
  };
  const Projected made = project_heads(x, context);
  const at::Tensor split = context.hooked(HookPlace::query, made.query),
                   query = placed(HookPlace::rotated_query, normed_query(split));
  const at::Tensor value = context.hooked(HookPlace::value, made.value).transpose(1, 2);
  // Keys that are the queries stay the same tensor, unless hooks see either alone.
  const bool parted = made.key.defined() || made.key_change.defined() || context.wants(HookPlace::key) ||
                      (rotary_ && (context.wants(HookPlace::rotated_query) || context.wants(HookPlace::rotated_key)));
  if (!parted) return {query, query, value};
  at::Tensor key = made.key.defined() ? made.key : split;
  if (made.key_change.defined()) key = key + made.key_change;
  return {query, placed(HookPlace::rotated_key, normed_key(context.hooked(HookPlace::key, key))), value};
}

at::Tensor AttentionLayerImpl::normed_query(const at::Tensor& heads) const {
  return query_norm_.defined() ? normed_heads(heads, query_norm_, options_.used_norm_epsilon()) : heads;
}

at::Tensor AttentionLayerImpl::normed_key(const at::Tensor& heads) const {
  return key_norm_.defined() ? normed_heads(heads, key_norm_, options_.used_norm_epsilon()) : normed_query(heads);
}

AttentionLayerImpl::Projected AttentionLayerImpl::project_heads(const at::Tensor& x, const ForwardContext& context) {
  const std::int64_t ranks = context.heads != nullptr ? context.heads->count() : 1,
                     shared = options_.used_key_value_heads() / ranks, of_values = shared / mechanism_.sub_heads();
  auto widths = projected_widths(options_, mechanism_);
  const at::Tensor projected = projection_(x);
  for (std::int64_t& width : widths) width /= ranks;
  // One split, so that the backward pass gathers the gradients of all parts with one copy.
  const auto parts = projected.split_with_sizes(widths, -1);
  Projected made{split_heads(parts.front(), options_.heads / ranks),
                 mechanism_.ties_keys ? at::Tensor() : split_heads(parts[1], shared),
                 split_heads(parts.back(), of_values)};
  if (context.head_inputs == nullptr) return made;
  const at::ScalarType type = made.query.scalar_type();
  const auto by_head = [&](const at::Tensor& inputs, std::int64_t first, std::int64_t width) {
    const auto of_heads = [&](const at::Tensor& rows) {
      return rows.narrow(0, first, width).unflatten(0, {inputs.size(2), width / inputs.size(2)});
    };
    const at::Tensor weight = of_heads(projection_->weight());
    const at::Tensor product = at::einsum("bnhw,hdw->bnhd", {inputs.to(weight.scalar_type()), weight});
    return (projection_->bias().defined() ? product + of_heads(projection_->bias()) : product).to(type);
  };
  // 0, with the derivatives that hooks want; undefined where they want none.
  const auto change = [&](const HeadInput& input, std::int64_t first, std::int64_t width) {
    return input.given.defined() ? by_head(input.hooked, first, width) - by_head(input.given, first, width)
                                 : at::Tensor();
  };
  const auto read = [&](const HeadInput& input, at::Tensor& of_heads, std::int64_t first, std::int64_t width) {
    if (input.changed())
      of_heads = by_head(input.hooked, first, width);
    else if (input.hooked.defined())
      of_heads = of_heads + change(input, first, width);
  };
  const auto& [query, key, value] = *context.head_inputs;
  read(query, made.query, 0, widths.front());
  read(value, made.value, std::reduce(widths.begin(), widths.end() - 1), widths.back());
  if (!mechanism_.ties_keys) {
    read(key, made.key, widths[0], widths[1]);
  } else if (key.changed()) {
    made.key = by_head(key.hooked, 0, widths[0]);
  } else {
    made.key_change = change(key, 0, widths[0]);
  }
  return made;
}

AttentionLayerImpl::Heads AttentionLayerImpl::project_memory(const at::Tensor& x, const ForwardContext& context) {
  const auto hooked = [&](HookPlace place, const at::Tensor& made, std::int64_t heads) {
    return context.hooked(place, split_heads(made, heads));
  };
  const at::Tensor query = normed_query(hooked(HookPlace::query, projection_(x), options_.heads)).transpose(1, 2);
  auto* state = static_cast<MemoryState*>(context.layer_state);
  if (state != nullptr && state->key.defined()) return {query, state->key, state->value};
  if (!context.memory.defined())
    throw UsageError(
        expected_got("context: memory", "[batch, tokens, " + std::to_string(options_.width) + "]", "none"));
  const std::int64_t shared = options_.used_key_value_heads();
  const auto parts = memory_projection_(context.memory).chunk(2, -1);
  const at::Tensor key = normed_key(hooked(HookPlace::key, parts[0], shared)).transpose(1, 2),
                   value = hooked(HookPlace::value, parts[1], shared / mechanism_.sub_heads()).transpose(1, 2);
  return {query, key, value};
}

at::Tensor AttentionLayerImpl::forward(const at::Tensor& x, const ForwardContext& context) {
  const Heads heads = options_.memory ? project_memory(x, context) : project(x, context);
  at::Tensor attended = attend(heads, context).transpose(1, 2);
  // A memory that attention refused is not kept.
  if (auto* const state = options_.memory ? static_cast<MemoryState*>(context.layer_state) : nullptr;
      state != nullptr && !state->key.defined())
    state->keep(heads.key, heads.value, context.memory_lengths);
  // Without a copy, where the kernel wrote the output in the layout of the query.
  return combine(context.hooked(HookPlace::heads, std::move(attended)), context);
}

at::Tensor AttentionLayerImpl::attend(Heads heads, const ForwardContext& context) {
  const std::string_view name = mechanism_.operator_name;
  ops::AttentionOptions options = operator_options(context.dropout, options_.memory ? nullptr : context.heads);
  const bool weighed = context.wants(HookPlace::scores) || context.wants(HookPlace::pattern_members) ||
                       context.wants(HookPlace::pattern);
  const bool observed = weighed || context.wants(HookPlace::row_statistics);
  if (context.wants(HookPlace::lambda))
    if (const auto shared = lambda())
      context.hooked(HookPlace::lambda, at::stack({shared->first, shared->second,
                                                   at::full_like(shared->first, lambda_init_), shared->whole}));
  at::Tensor attended;  // as without hooks
  if (options_.memory) {
    const auto* state = static_cast<const MemoryState*>(context.layer_state);
    const bool kept = state != nullptr && state->key.defined();
    options.key_lengths = kept ? state->memory_lengths : context.memory_lengths;
  } else if (context.layer_state != nullptr) {
    KeyValueState& state = *static_cast<KeyValueState*>(context.layer_state);
    state.append(heads.key, heads.value);
    attended = state.attend(heads.query, name, options);
    if (!observed) return attended;
    heads.query = state.read_query(heads.query);
    heads.key = state.key();
    heads.value = state.value();
    // The state's are on the host, and change.
    options.key_lengths = state.lengths().to(heads.query.device(), at::kLong, false, /*copy=*/true);
    options.first_positions = *options.key_lengths - heads.query.size(2);
  } else {
    // A pass for its shapes alone has numbers all the same.
    const auto there = [&](const std::optional<at::Tensor>& numbers) {
      return numbers ? std::optional(to_device(*numbers, heads.query.device())) : std::nullopt;
    };
    options.key_lengths = there(context.lengths);
    options.cu_seqlens = there(context.cu_seqlens);
    if (context.texts != nullptr)
      attended = context.texts->attention(heads.query, heads.key, heads.value, name, options);
  }
  if (context.wants(HookPlace::row_statistics)) {
    const auto [output, rows] = ops::attention_statistics(heads.query, heads.key, heads.value, false, name, options);
    if (!attended.defined()) attended = output;
    context.hooked(HookPlace::row_statistics, rows.narrow(0, 0, RowStatistics<double>::argmax_at));
  }
  if (!weighed)
    return attended.defined() ? attended : ops::attention(heads.query, heads.key, heads.value, name, options);
  const ObservedWeights weights = observed_weights({heads.query, heads.key, mechanism_, learned_, options}, context);
  const auto weighed_values = [&] {
    const std::int64_t shared = heads.value.size(1);  // read by equally many heads each
    return weights.value.unflatten(1, {shared, weights.value.size(1) / shared})
        .matmul(heads.value.unsqueeze(2))
        .flatten(1, 2);
  };
  if (weights.changed) return weighed_values();
  if (!attended.defined()) attended = ops::attention(heads.query, heads.key, heads.value, name, options);
  return with_derivatives_of(attended, {weights.value}, weighed_values);
}

bool AttentionLayerImpl::can_decode() const { return !mechanism_.is_matrix() && (options_.causal || options_.memory); }

std::unique_ptr<LayerState> AttentionLayerImpl::make_state(std::int64_t batch, std::int64_t capacity) const {
  if (!can_decode())
    throw UsageError(mechanism_.is_matrix()
                         ? expected_got("cache", "a mechanism whose rows stand alone", options_.mechanism)
                         : expected_got("cache", "causal attention", "attention to later tokens too"));
  if (options_.memory) return std::make_unique<MemoryState>();
  const std::int64_t shared = options_.used_key_value_heads();
  KeyValueState::TurnBack turn_back;
  if (rotary_)
    turn_back = [rotary = rotary_](const at::Tensor& keys, std::int64_t distance) {
      return rotary->back(keys, distance);
    };
  return std::make_unique<KeyValueState>(
      ops::KeyValueCache({.batch = batch,
                          .key_heads = shared,
                          .value_heads = shared / mechanism_.sub_heads(),
                          .capacity = capacity,
                          .head_dim = head_dim_,
                          .value_dim = head_dim_ * mechanism_.sub_heads()},
                         projection_->parameters().front().scalar_type(), projection_->parameters().front().device()),
      std::move(turn_back));
}

at::Tensor AttentionLayerImpl::combine(const at::Tensor& attended, const ForwardContext& context) {
  at::Tensor by_token = attended;  // [B, N, heads, width]
  if (is_difference(mechanism_)) {
    // The factor cancels the scale of the norm, so that training starts with the gradients of plain attention.
    by_token = normed_heads(by_token, head_norm_ * (1 - lambda_init_), options_.head_norm_epsilon);
    by_token = context.hooked(HookPlace::normed_heads, by_token);
  }
  const auto output = [&] {
    const at::Tensor read = by_token.flatten(2);
    return context.heads != nullptr && !options_.memory ? sum_of_own(*output_, read, *context.heads, "heads")
                                                        : output_(read);
  };
  if (!context.wants(HookPlace::result)) return output();
  const at::Tensor weight = output_->weight().unflatten(1, {by_token.size(2), by_token.size(3)});
  const at::Tensor made = at::einsum("bnhd,whd->bnhw", {by_token.to(weight.scalar_type()), weight}),
                   result = context.hooked(HookPlace::result, made);
  const auto sum = [&] {
    const at::Tensor heads = result.sum(2);
    return output_->bias().defined() ? heads + output_->bias() : heads;
  };
  return context.changed(HookPlace::result, made, result) ? sum() : with_derivatives_of(output(), {result}, sum);
}

bool AttentionLayerImpl::has_hook(HookPlace place) const {
  switch (place) {
    case HookPlace::query:
    case HookPlace::key:
    case HookPlace::value:
    case HookPlace::scores:
    case HookPlace::pattern:
    case HookPlace::row_statistics:
    case HookPlace::heads:
    case HookPlace::result:
      return true;
    case HookPlace::rotated_query:
    case HookPlace::rotated_key:
      return rotary_ != nullptr;
    case HookPlace::lambda:
    case HookPlace::pattern_members:
    case HookPlace::normed_heads:
      return is_difference(mechanism_);
    default:
      return false;
  }
}

bool AttentionLayerImpl::only_reads(HookPlace place) const {
  return place == HookPlace::scores && mechanism_.is_matrix();
}

}  // namespace cogwheel::nn
