#include "cogwheel/nn/attention_layer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/kernels/pairwise/row_statistics.h"
#include "cogwheel/mechanisms/forms/differential.h"
#include "cogwheel/nn/head_width.h"
#include "cogwheel/nn/key_value_state.h"
#include "cogwheel/nn/matrix_product.h"
#include "cogwheel/nn/memory_state.h"
#include "cogwheel/nn/new_parameter.h"
#include "cogwheel/nn/residual_norm.h"
#include "cogwheel/ops/parameters.h"

namespace cogwheel {
namespace {

bool is_difference(const Mechanism& mechanism) { return mechanism.sub_heads() == 2; }

// [B, N, heads · head_dim] → [B, N, heads, head_dim], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}); }

// Columns of the projection of keys and values.
std::int64_t shared_width(const AttentionLayerOptions& options) {
  return options.width / options.heads * options.used_key_value_heads();
}

// Columns of the first projection: queries, keys where they are not tied, values.
std::vector<std::int64_t> projected_widths(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  const std::int64_t shared = shared_width(options);
  if (options.memory) return {options.width};
  if (mechanism.ties_keys) return {options.width, shared};
  return {options.width, shared, shared};
}

std::string projection_name(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  return options.memory ? "query" : mechanism.ties_keys ? "query_value" : "query_key_value";
}

std::int64_t total(const std::vector<std::int64_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
}

}  // namespace

void check(const AttentionLayerOptions& options) {
  const Mechanism& mechanism = find_mechanism(options.mechanism);
  if (mechanism.recurrent() != nullptr)
    throw UsageError(expected_got("mechanism of an attention layer", "one without a state", options.mechanism));
  checked_head_width(options.width, options.heads);
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
  if (mechanism.ties_keys && options.memory)
    throw UsageError(
        expected_got("mechanism of attention to a memory", "one whose keys are not its queries", options.mechanism));
}

AttentionLayerImpl::AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary)
    : options_(options), mechanism_(find_mechanism(options.mechanism)), rotary_(std::move(rotary)) {
  check(options);
  head_dim_ = options.width / options.heads;
  projection_ =
      register_module(projection_name(options, mechanism_),
                      Linear(options.width, total(projected_widths(options, mechanism_)), options.projection_bias));
  if (options.memory)
    memory_projection_ =
        register_module("key_value", Linear(options.width, 2 * shared_width(options), options.projection_bias));
  output_ = register_module("output", Linear(options.width, options.width, options.output_bias));
  // For a row map each scalar is a parameter, and their names come first; for a dense form they are the columns of one.
  const std::size_t scalars = mechanism_.parameter_initial.size();
  const bool in_columns = mechanism_.is_matrix();
  const auto names = parameter_names(mechanism_);
  for (std::size_t i = 0; i < (in_columns ? std::min<std::size_t>(scalars, 1) : scalars); ++i)
    learned_.emplace_back(
        names[i],
        register_parameter(names[i], in_columns ? new_parameter({options.heads, static_cast<std::int64_t>(scalars)})
                                                : new_parameter({options.heads})));
  if (is_difference(mechanism_)) {
    lambda_init_ = Differential::lambda_init(static_cast<double>(options.layer + options.first_lambda_depth));
    lambda_query1_ = register_parameter("lambda_query1", new_parameter({head_dim_}));
    lambda_key1_ = register_parameter("lambda_key1", new_parameter({head_dim_}));
    lambda_query2_ = register_parameter("lambda_query2", new_parameter({head_dim_}));
    lambda_key2_ = register_parameter("lambda_key2", new_parameter({head_dim_}));
    head_norm_ = register_parameter("head_norm", new_parameter({2 * head_dim_}));
  }
}

std::optional<at::Tensor> AttentionLayerImpl::lambda() const {
  if (!is_difference(mechanism_)) return std::nullopt;
  // at::dot has no shape function for the meta device.
  const auto product = [](const at::Tensor& a, const at::Tensor& b) {
    return a.is_meta() ? (a * b).sum() : at::dot(a, b);
  };
  return product(lambda_query1_, lambda_key1_).exp() - product(lambda_query2_, lambda_key2_).exp() + lambda_init_;
}

AttentionOptions AttentionLayerImpl::operator_options(const Dropout& dropout) const {
  AttentionOptions options{.causal = options_.causal && !options_.memory, .scale = {}, .parameters = learned_};
  if (const auto shared = lambda())
    options.parameters.emplace_back("lam", shared->expand({options_.heads / mechanism_.sub_heads()}));
  if (dropout.rate() > 0 && !mechanism_.is_matrix()) {
    options.dropout = dropout.rate();
    options.seed = at::scalar_tensor(static_cast<std::int64_t>(dropout.seed()), at::kLong);
  }
  return options;
}

AttentionLayerImpl::Heads AttentionLayerImpl::project(const at::Tensor& x, const ForwardContext& context) {
  const LayerState* const state = rotary_ ? context.layer_state : nullptr;
  const at::Tensor positions =
      context.positions.defined() || state == nullptr ? context.positions : ragged_positions(*state, x.size(1));
  const std::int64_t first = positions.defined() || state == nullptr ? 0 : state->longest();
  const auto placed = [&](const at::Tensor& part, std::int64_t heads) {
    const at::Tensor split = split_heads(part, heads);
    const at::Tensor turned = !rotary_              ? split
                              : positions.defined() ? (*rotary_)(split, positions)
                                                    : (*rotary_)(split, first);
    return turned.transpose(1, 2);
  };
  // One split, so that the backward pass gathers the gradients of all parts with one copy.
  const auto parts = projection_(x).split_with_sizes(projected_widths(options_, mechanism_), -1);
  const std::int64_t shared = options_.used_key_value_heads();
  const at::Tensor query = placed(parts.front(), options_.heads);
  const at::Tensor value = split_heads(parts.back(), shared / mechanism_.sub_heads()).transpose(1, 2);
  return {query, mechanism_.ties_keys ? query : placed(parts[1], shared), value};
}

AttentionLayerImpl::Heads AttentionLayerImpl::project_memory(const at::Tensor& x, const ForwardContext& context) {
  const at::Tensor query = split_heads(projection_(x), options_.heads).transpose(1, 2);
  auto* state = static_cast<MemoryState*>(context.layer_state);
  if (state != nullptr && state->key.defined()) return {query, state->key, state->value};
  if (!context.memory.defined())
    throw UsageError(
        expected_got("context: memory", "[batch, tokens, " + std::to_string(options_.width) + "]", "none"));
  const std::int64_t shared = options_.used_key_value_heads();
  const auto parts = memory_projection_(context.memory).chunk(2, -1);
  const at::Tensor key = split_heads(parts[0], shared).transpose(1, 2),
                   value = split_heads(parts[1], shared / mechanism_.sub_heads()).transpose(1, 2);
  return {query, key, value};
}

at::Tensor AttentionLayerImpl::forward(const at::Tensor& x, const ForwardContext& context) {
  const Heads projected = options_.memory ? project_memory(x, context) : project(x, context);
  Heads heads = projected;
  if (context.tap != nullptr)
    heads = {context.tapped(TapPlace::query, heads.query), context.tapped(TapPlace::key, heads.key),
             context.tapped(TapPlace::value, heads.value)};
  const at::Tensor attended = attend(heads, context);
  // A memory that attention refused is not kept.
  if (auto* const state = options_.memory ? static_cast<MemoryState*>(context.layer_state) : nullptr;
      state != nullptr && !state->key.defined())
    state->keep(projected.key, projected.value, context.memory_lengths);
  return combine(context.tapped(TapPlace::heads, attended));
}

at::Tensor AttentionLayerImpl::attend(Heads heads, const ForwardContext& context) {
  const std::string_view name = mechanism_.operator_name;
  AttentionOptions options = operator_options(context.dropout);
  const bool observed = context.taps(TapPlace::weights) || context.taps(TapPlace::row_statistics);
  if (options_.memory) {
    const auto* state = static_cast<const MemoryState*>(context.layer_state);
    const bool kept = state != nullptr && state->key.defined();
    options.key_lengths = kept ? state->memory_lengths : context.memory_lengths;
  } else if (context.layer_state != nullptr) {
    KeyValueCache& cache = static_cast<KeyValueState*>(context.layer_state)->cache();
    cache.append(heads.key, heads.value);
    if (!observed) return cache.attend(heads.query, name, options);
    const std::int64_t longest = cache.longest();
    heads.key = cache.key().narrow(2, 0, longest);
    heads.value = cache.value().narrow(2, 0, longest);
    options.key_lengths = cache.lengths().clone();
    options.first_positions = cache.lengths() - heads.query.size(2);
  } else {
    options.key_lengths = context.lengths;
    options.cu_seqlens = context.cu_seqlens;
  }
  at::Tensor attended;
  if (context.taps(TapPlace::row_statistics)) {
    at::Tensor rows;
    std::tie(attended, rows) = attention_statistics(heads.query, heads.key, heads.value, false, name, options);
    context.tapped(TapPlace::row_statistics, rows.narrow(0, 0, RowStatistics<double>::argmax_at));
  }
  if (context.taps(TapPlace::weights)) {
    const at::Tensor weights =
        context.tapped(TapPlace::weights, attention_weights(heads.query, heads.key, name, options));
    const std::int64_t shared = heads.value.size(1);  // read by equally many heads each
    return weights.unflatten(1, {shared, weights.size(1) / shared}).matmul(heads.value.unsqueeze(2)).flatten(1, 2);
  }
  return attended.defined() ? attended : attention(heads.query, heads.key, heads.value, name, options);
}

bool AttentionLayerImpl::can_decode() const { return !mechanism_.is_matrix() && (options_.causal || options_.memory); }

std::unique_ptr<LayerState> AttentionLayerImpl::make_state(std::int64_t batch, std::int64_t capacity) const {
  if (!can_decode())
    throw UsageError(mechanism_.is_matrix()
                         ? expected_got("cache", "a mechanism whose rows stand alone", options_.mechanism)
                         : expected_got("cache", "causal attention", "attention to later tokens too"));
  if (options_.memory) return std::make_unique<MemoryState>();
  const std::int64_t shared = options_.used_key_value_heads();
  return std::make_unique<KeyValueState>(KeyValueCache({.batch = batch,
                                                        .key_heads = shared,
                                                        .value_heads = shared / mechanism_.sub_heads(),
                                                        .capacity = capacity,
                                                        .head_dim = head_dim_,
                                                        .value_dim = head_dim_ * mechanism_.sub_heads()},
                                                       projection_->parameters().front().scalar_type(),
                                                       projection_->parameters().front().device()));
}

at::Tensor AttentionLayerImpl::combine(const at::Tensor& attended) {
  // [B, N, heads, width]: without a copy, where the kernel wrote the output in the layout of the query.
  at::Tensor by_token = attended.transpose(1, 2);
  if (is_difference(mechanism_))
    // The factor cancels the scale of the norm, so that training starts with the gradients of plain attention.
    by_token = norm_of_sum(by_token.to(head_norm_.scalar_type()), {}, head_norm_ * (1 - lambda_init_), {},
                           NormKind::rms, 1e-5, BFloat16Products::enabled())
                   .normed;
  return output_(by_token.flatten(2));
}

void AttentionLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation, double residual_standard_deviation) {
  projection_->initialize(initializer, name + "." + projection_name(options_, mechanism_), standard_deviation);
  if (memory_projection_) memory_projection_->initialize(initializer, name + ".key_value", standard_deviation);
  output_->initialize(initializer, name + ".output", residual_standard_deviation);
  for (std::size_t i = 0; i < mechanism_.parameter_initial.size(); ++i) {
    const torch::NoGradGuard no_grad;
    const at::Tensor scalar =
        mechanism_.is_matrix() ? learned_.front().second.select(1, static_cast<std::int64_t>(i)) : learned_[i].second;
    scalar.fill_(mechanism_.parameter_initial[i]);
  }
  if (is_difference(mechanism_)) {
    initializer.normal(lambda_query1_, name + ".lambda_query1", 0.1);
    initializer.normal(lambda_key1_, name + ".lambda_key1", 0.1);
    initializer.normal(lambda_query2_, name + ".lambda_query2", 0.1);
    initializer.normal(lambda_key2_, name + ".lambda_key2", 0.1);
    const torch::NoGradGuard no_grad;
    head_norm_.fill_(1);
  }
}

}  // namespace cogwheel
