// The weights of an attention layer: which there are, how they begin, and which of their rows are whose.
#include <c10/core/InferenceMode.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "cogwheel/nn/mixers/alibi.h"
#include "cogwheel/nn/mixers/attention_layer.h"
#include "cogwheel/nn/ranks/divided_linear.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/pairwise/parameters.h"

namespace cogwheel::nn {

AttentionLayerImpl::AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary)
    : options_(options), mechanism_(find_mechanism(options.mechanism)), rotary_(std::move(rotary)) {
  check(options);
  head_dim_ = options.used_head_dim();
  const std::vector<std::int64_t> widths = projected_widths(options, mechanism_);
  projection_ =
      register_module(projection_name(options, mechanism_),
                      Linear(options.width, std::reduce(widths.begin(), widths.end()), options.projection_bias));
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

HeadCounts AttentionLayerImpl::head_counts() const {
  if (options_.memory) return {};
  const std::int64_t shared = options_.used_key_value_heads();
  return {options_.heads, shared, shared / mechanism_.sub_heads()};
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

}  // namespace cogwheel::nn
