#include "cogwheel/nn/attention_layer.h"

#include <c10/core/InferenceMode.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/attention/mechanisms/forms/differential.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/head_width.h"
#include "cogwheel/nn/observed_weights.h"
#include "cogwheel/nn/ranks/divided_linear.h"
#include "cogwheel/nn/residual_norm.h"
#include "cogwheel/nn/states/key_value_state.h"
#include "cogwheel/nn/states/memory_state.h"
#include "cogwheel/nn/weights/derivative_path.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/parameters.h"
#include "cogwheel/ops/pairwise/scores.h"

namespace cogwheel::nn {
namespace {

bool is_difference(const Mechanism& mechanism) { return mechanism.sub_heads() == 2; }

// [B, N, heads · head_dim] → [B, N, heads, head_dim], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}); }

// Columns of the projection of keys and values.
std::int64_t shared_width(const AttentionLayerOptions& options) {
  return options.used_head_dim() * options.used_key_value_heads();
}

// Of all queries, and of what the output projection reads.
std::int64_t inner_width(const AttentionLayerOptions& options) { return options.used_head_dim() * options.heads; }

// Columns of the first projection: queries, keys where they are not tied, values.
std::vector<std::int64_t> projected_widths(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  const std::int64_t inner = inner_width(options), shared = shared_width(options);
  if (options.memory) return {inner};
  if (mechanism.ties_keys) return {inner, shared};
  return {inner, shared, shared};
}

std::string projection_name(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  return options.memory ? "query" : mechanism.ties_keys ? "query_value" : "query_key_value";
}

// Each head by itself, [..., width], in the type of the gain, or bfloat16 where products are.
at::Tensor normed_heads(const at::Tensor& heads, const at::Tensor& gain, double epsilon) {
  return norm_of_sum(heads.to(gain.scalar_type()), {}, gain, {}, NormKind::rms, epsilon, BFloat16Products::enabled())
      .normed;
}

std::int64_t total(const std::vector<std::int64_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
}

}  // namespace

void check(const AttentionLayerOptions& options) {
  const Mechanism& mechanism = find_mechanism(options.mechanism);
  if (mechanism.recurrent() != nullptr)
    throw UsageError(expected_got("mechanism of an attention layer", "one without a state", options.mechanism));
  checked_head_width(options.width, options.heads, options.head_dim);
  if (options.heads % mechanism.sub_heads() != 0)
    throw UsageError(expected_got("heads", "an even number for " + options.mechanism, std::to_string(options.heads)));
  if (options.first_lambda_depth != 0 && options.first_lambda_depth != 1)
    throw UsageError(expected_got("first_lambda_depth", "0 or 1", std::to_string(options.first_lambda_depth)));
  const std::int64_t shared = options.used_key_value_heads();
  if (shared < 1 || options.heads % shared != 0)
    throw UsageError(expected_got("key_value_heads", "a divisor of the heads (" + std::to_string(options.heads) + ")",
                                  std::to_string(shared)));
  if (shared % mechanism.sub_heads() != 0)
    throw UsageError(
        expected_got("key_value_heads", "an even number for " + options.mechanism, std::to_string(shared)));
  if (mechanism.ties_keys && shared != options.heads)
    throw UsageError(expected_got(
        "key_value_heads",
        std::to_string(options.heads) + ", as heads: the keys of " + options.mechanism + " are its queries",
        std::to_string(shared)));
  if (options.window < 0) throw UsageError(expected_got("window", "at least 1", std::to_string(options.window)));
  if (options.window > 0 && (!options.causal || options.memory))
    throw UsageError(
        expected_got("window", "causal attention beside it", options.memory ? "a memory" : "causal=False"));
  if (options.window > 0 && mechanism.is_matrix())
    throw UsageError(expected_got("window", "none for " + options.mechanism + ", a function of the whole score matrix",
                                  std::to_string(options.window)));
  if (options.alibi && (!options.causal || options.memory))
    throw UsageError(expected_got("alibi", "causal attention beside it", options.memory ? "a memory" : "causal=False"));
  if (options.alibi && (mechanism.is_matrix() || mechanism.takes_cosines()))
    throw UsageError(expected_got("alibi", "none for " + options.mechanism, "one"));
  if (!(options.norm_epsilon.value_or(0) >= 0) || !(options.head_norm_epsilon >= 0))
    throw UsageError(expected_got("epsilon of a norm", "at least 0",
                                  number_text(std::min(options.norm_epsilon.value_or(0), options.head_norm_epsilon))));
  const std::vector<std::string> scores = ops::score_names();
  if (std::find(scores.begin(), scores.end(), options.score) == scores.end())
    throw UsageError(expected_got("score", expected_names(options.score, scores), options.score));
  if (options.score != "dot" && (mechanism.is_matrix() || (mechanism.takes_cosines() && options.score != "cosine")))
    throw UsageError(expected_got(
        "score", mechanism.takes_cosines() ? "dot or cosine for " + options.mechanism : "dot for " + options.mechanism,
        options.score));
  if (mechanism.ties_keys && options.memory)
    throw UsageError(
        expected_got("mechanism of attention to a memory", "one whose keys are not its queries", options.mechanism));
}

at::Tensor alibi_slopes(std::int64_t heads) {
  const auto of_power_of_two = [](std::int64_t count, std::int64_t step, std::int64_t wanted) {
    return at::exp2((at::arange(wanted, at::kDouble) * step + 1) * (-8.0 / static_cast<double>(count)));
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const at::Tensor slopes = of_power_of_two(power, 1, power);
  return power == heads ? slopes : at::cat({slopes, of_power_of_two(2 * power, 2, heads - power)});
}

double lambda_init_of(const AttentionLayerOptions& options) {
  if (!is_difference(find_mechanism(options.mechanism))) return 0;
  return Differential::lambda_init(static_cast<double>(options.layer + options.first_lambda_depth));
}

AttentionLayerImpl::AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary)
    : options_(options), mechanism_(find_mechanism(options.mechanism)), rotary_(std::move(rotary)) {
  check(options);
  head_dim_ = options.used_head_dim();
  projection_ =
      register_module(projection_name(options, mechanism_),
                      Linear(options.width, total(projected_widths(options, mechanism_)), options.projection_bias));
  if (options.memory)
    memory_projection_ =
        register_module("key_value", Linear(options.width, 2 * shared_width(options), options.projection_bias));
  output_ = register_module("output", Linear(inner_width(options), options.width, options.output_bias));
  if (options.query_key_norm) {
    query_norm_ = new_parameter(*this, "query_norm", {head_dim_});
    if (!mechanism_.ties_keys) key_norm_ = new_parameter(*this, "key_norm", {head_dim_});
  }
  if (options.alibi) {
    const c10::InferenceMode ordinary(false);
    alibi_ = alibi_slopes(options.heads / mechanism_.sub_heads());
  }
  // For a row map each scalar is a parameter, and their names come first; for a dense form they are the columns of one.
  const std::size_t scalars = mechanism_.parameter_initial.size();
  const bool in_columns = mechanism_.is_matrix();
  const auto names = ops::parameter_names(mechanism_);
  for (std::size_t i = 0; i < (in_columns ? std::min<std::size_t>(scalars, 1) : scalars); ++i)
    learned_.emplace_back(
        names[i], in_columns ? new_parameter(*this, names[i], {options.heads, static_cast<std::int64_t>(scalars)})
                             : new_parameter(*this, names[i], {options.heads}));
  lambda_init_ = lambda_init_of(options);
  if (is_difference(mechanism_)) {
    lambda_query1_ = new_parameter(*this, "lambda_query1", {head_dim_});
    lambda_key1_ = new_parameter(*this, "lambda_key1", {head_dim_});
    lambda_query2_ = new_parameter(*this, "lambda_query2", {head_dim_});
    lambda_key2_ = new_parameter(*this, "lambda_key2", {head_dim_});
    head_norm_ = new_parameter(*this, "head_norm", {2 * head_dim_});
  }
  if (options.score == "general")
    score_weight_ = new_parameter(*this, "score_weight", {options.heads, head_dim_, head_dim_});
  if (options.score == "additive" || options.score == "concat")
    score_weight_ = new_parameter(*this, "score_weight", {options.heads, head_dim_});
  if (options.score == "concat")
    score_projection_ = new_parameter(*this, "score_projection", {options.heads, head_dim_, 2 * head_dim_});
}

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
  read(value, made.value, total(widths) - widths.back(), widths.back());
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

std::optional<ValueCircuit> AttentionLayerImpl::value_circuit() const {
  const std::int64_t heads = options_.heads / mechanism_.sub_heads(), width = head_dim_ * mechanism_.sub_heads(),
                     groups = options_.used_key_value_heads() / mechanism_.sub_heads();
  const at::Tensor& made = options_.memory ? memory_projection_->weight() : projection_->weight();
  const at::Tensor value = made.narrow(0, made.size(0) - groups * width, groups * width)
                               .unflatten(0, {groups, width})
                               .repeat_interleave(heads / groups, 0);
  return ValueCircuit{value, output_->weight().unflatten(1, {heads, width}).transpose(0, 1),
                      is_difference(mechanism_) ? head_norm_ * (1 - lambda_init_) : at::Tensor(),
                      options_.head_norm_epsilon};
}

std::vector<Projection> AttentionLayerImpl::projections() const {
  if (options_.memory) return {};
  const std::int64_t shared = options_.used_key_value_heads(), sub_heads = mechanism_.sub_heads(),
                     group = options_.heads / shared;
  std::vector<std::int64_t> itself(static_cast<std::size_t>(options_.heads)), of_group = itself;
  for (std::int64_t head = 0; head < options_.heads; ++head) {
    itself[static_cast<std::size_t>(head)] = head;
    of_group[static_cast<std::size_t>(head)] = sub_heads * (head / sub_heads / group) + head % sub_heads;
  }
  const std::string made = projection_name(options_, mechanism_);
  const std::int64_t after_query = options_.heads * head_dim_;
  std::vector<Projection> projections{{ProjectionRole::query, made, 0, options_.heads, head_dim_, itself}};
  if (!mechanism_.ties_keys)
    projections.push_back({ProjectionRole::key, made, after_query, shared, head_dim_, of_group});
  projections.push_back({ProjectionRole::value, made, after_query + (mechanism_.ties_keys ? 0 : shared * head_dim_),
                         shared, head_dim_, of_group});
  projections.push_back({ProjectionRole::output, "output", 0, options_.heads, head_dim_, itself});
  return projections;
}

std::vector<DividedParameter> AttentionLayerImpl::divided_parameters() const {
  if (options_.memory) return {};
  std::vector<DividedParameter> divided = divided_outputs(*projection_, projected_widths(options_, mechanism_));
  divided.push_back(divided_inputs(*output_));
  return divided;
}

std::optional<RotaryLayout> AttentionLayerImpl::rotary_layout() const {
  return rotary_ ? std::optional(rotary_->layout()) : std::nullopt;
}

std::vector<std::string> AttentionLayerImpl::take_layout(RotaryLayout given) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  const at::Tensor order = at::tensor(component_order(given, rotary_->layout(), head_dim_), at::kLong);
  const auto rearrange = [&](at::Tensor part,
                             std::int64_t dimension) {  // heads of components along it, and those alone
    part.copy_(part.unflatten(dimension, {-1, head_dim_})
                   .index_select(dimension + 1, order)
                   .flatten(dimension, dimension + 1));
  };
  for (const Projection& each : projections()) {
    if (each.role != ProjectionRole::query && each.role != ProjectionRole::key) continue;
    rearrange(projection_->weight().narrow(0, each.first, each.size()), 0);
    if (projection_->bias().defined()) rearrange(projection_->bias().narrow(0, each.first, each.size()), 0);
  }
  const auto whole = [&](const char* name, const at::Tensor& parameter, std::vector<std::int64_t> dimensions) {
    if (!parameter.defined()) return;
    for (const std::int64_t dimension : dimensions) rearrange(parameter, dimension);
    names.emplace_back(name);
  };
  whole("query_norm", query_norm_, {0});
  whole("key_norm", key_norm_, {0});
  if (options_.score == "general") whole("score_weight", score_weight_, {1, 2});
  if (options_.score == "additive") whole("score_weight", score_weight_, {1});
  whole("score_projection", score_projection_, {2});
  return names;
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

HeadCounts AttentionLayerImpl::head_counts() const {
  if (options_.memory) return {};
  const std::int64_t shared = options_.used_key_value_heads();
  return {options_.heads, shared, shared / mechanism_.sub_heads()};
}

void AttentionLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation, double residual_standard_deviation) {
  projection_->initialize(initializer, name + "." + projection_name(options_, mechanism_), standard_deviation);
  if (memory_projection_) memory_projection_->initialize(initializer, name + ".key_value", standard_deviation);
  output_->initialize(initializer, name + ".output", residual_standard_deviation);
  for (const at::Tensor& gain : {query_norm_, key_norm_}) {
    const torch::NoGradGuard no_grad;
    if (gain.defined()) at::Tensor(gain).fill_(1);
  }
  for (std::size_t i = 0; i < mechanism_.parameter_initial.size(); ++i) {
    const torch::NoGradGuard no_grad;
    const at::Tensor scalar =
        mechanism_.is_matrix() ? learned_.front().second.select(1, static_cast<std::int64_t>(i)) : learned_[i].second;
    scalar.fill_(mechanism_.parameter_initial[i]);
  }
  // Such that scores have the size of products of the same queries and keys.
  if (options_.score == "general")
    initializer.normal(score_weight_, name + ".score_weight", 1 / std::sqrt(static_cast<double>(head_dim_)));
  if (options_.score == "additive" || options_.score == "concat")
    initializer.normal(score_weight_, name + ".score_weight", 1 / std::sqrt(static_cast<double>(head_dim_)));
  if (score_projection_.defined())
    initializer.normal(score_projection_, name + ".score_projection",
                       1 / std::sqrt(2 * static_cast<double>(head_dim_)));
  if (is_difference(mechanism_)) {
    initializer.normal(lambda_query1_, name + ".lambda_query1", 0.1);
    initializer.normal(lambda_key1_, name + ".lambda_key1", 0.1);
    initializer.normal(lambda_query2_, name + ".lambda_query2", 0.1);
    initializer.normal(lambda_key2_, name + ".lambda_key2", 0.1);
    const torch::NoGradGuard no_grad;
    head_norm_.fill_(1);
  }
}

}  // namespace cogwheel::nn
