#include "cogwheel/nn/attention.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/kernels/pairwise/row_statistics.h"
#include "cogwheel/mechanisms/forms/differential.h"
#include "cogwheel/nn/matrix_product.h"
#include "cogwheel/nn/residual_norm.h"
#include "cogwheel/ops/parameters.h"

namespace cogwheel {
namespace {

bool is_difference(const Mechanism& mechanism) { return mechanism.sub_heads() == 2; }

// [B, N, heads · head_dim] → [B, N, heads, head_dim], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}); }

// Columns of the first projection: queries, keys where they are not tied, values.
std::vector<std::int64_t> projected_widths(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  const std::int64_t shared = options.width / options.heads * options.used_key_value_heads();
  if (mechanism.ties_keys) return {options.width, shared};
  return {options.width, shared, shared};
}

std::int64_t total(const std::vector<std::int64_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
}

}  // namespace

void check(const AttentionLayerOptions& options) {
  const Mechanism& mechanism = find_mechanism(options.mechanism);
  if (options.width < 1) throw UsageError(expected_got("width", "at least 1", std::to_string(options.width)));
  if (options.heads < 1 || options.width % options.heads != 0)
    throw UsageError(expected_got("heads", "a divisor of the width (" + std::to_string(options.width) + ")",
                                  std::to_string(options.heads)));
  const std::int64_t head_dim = options.width / options.heads;
  if (head_dim < 8 || head_dim > 256)
    throw UsageError(expected_got("head_dim (width / heads)", "8 to 256", std::to_string(head_dim)));
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
}

AttentionLayerImpl::AttentionLayerImpl(const AttentionLayerOptions& options, std::shared_ptr<const Rotary> rotary)
    : options_(options), mechanism_(find_mechanism(options.mechanism)), rotary_(std::move(rotary)) {
  check(options);
  head_dim_ = options.width / options.heads;
  projection_ = register_module(mechanism_.ties_keys ? "query_value" : "query_key_value",
                                Linear(options.width, total(projected_widths(options, mechanism_)), options.bias));
  output_ = register_module("output", Linear(options.width, options.width, options.bias));
  // Of a row map each scalar is a parameter, whose names come first; of a dense form they are the columns of one.
  const std::size_t scalars = mechanism_.parameter_initial.size();
  const bool in_columns = mechanism_.is_matrix();
  const auto names = parameter_names(mechanism_);
  for (std::size_t i = 0; i < (in_columns ? std::min<std::size_t>(scalars, 1) : scalars); ++i)
    learned_.emplace_back(
        names[i],
        register_parameter(names[i], in_columns ? torch::empty({options.heads, static_cast<std::int64_t>(scalars)})
                                                : torch::empty({options.heads})));
  if (is_difference(mechanism_)) {
    lambda_init_ = Differential::lambda_init(static_cast<double>(options.layer + options.first_lambda_depth));
    lambda_query1_ = register_parameter("lambda_query1", torch::empty({head_dim_}));
    lambda_key1_ = register_parameter("lambda_key1", torch::empty({head_dim_}));
    lambda_query2_ = register_parameter("lambda_query2", torch::empty({head_dim_}));
    lambda_key2_ = register_parameter("lambda_key2", torch::empty({head_dim_}));
    head_norm_ = register_parameter("head_norm", torch::empty({2 * head_dim_}));
  }
}

std::optional<at::Tensor> AttentionLayerImpl::lambda() const {
  if (!is_difference(mechanism_)) return std::nullopt;
  return at::dot(lambda_query1_, lambda_key1_).exp() - at::dot(lambda_query2_, lambda_key2_).exp() + lambda_init_;
}

AttentionOptions AttentionLayerImpl::operator_options(const Dropout& dropout) const {
  AttentionOptions options{.causal = options_.causal, .scale = {}, .parameters = learned_};
  if (const auto shared = lambda())
    options.parameters.emplace_back("lam", shared->expand({options_.heads / mechanism_.sub_heads()}));
  if (dropout.rate() > 0 && !mechanism_.is_matrix()) {
    options.dropout = dropout.rate();
    options.seed = at::scalar_tensor(static_cast<std::int64_t>(dropout.seed()), at::kLong);
  }
  return options;
}

AttentionLayerImpl::Heads AttentionLayerImpl::project(const at::Tensor& x, std::int64_t first_position) {
  // One split, whose backward pass gathers the gradients of all parts with one copy.
  const auto parts = projection_(x).split_with_sizes(projected_widths(options_, mechanism_), -1);
  const std::int64_t shared = options_.used_key_value_heads();
  const auto placed = [&](const at::Tensor& part, std::int64_t heads) {
    const at::Tensor split = split_heads(part, heads);
    return (rotary_ ? (*rotary_)(split, first_position) : split).transpose(1, 2);
  };
  const at::Tensor query = placed(parts.front(), options_.heads);
  const at::Tensor value = split_heads(parts.back(), shared / mechanism_.sub_heads()).transpose(1, 2);
  return {query, mechanism_.ties_keys ? query : placed(parts[1], shared), value};
}

at::Tensor AttentionLayerImpl::forward(const at::Tensor& x, const Dropout& dropout) {
  const auto [query, key, value] = project(x);
  return combine(attention(query, key, value, mechanism_.operator_name, operator_options(dropout)));
}

KeyValueCache AttentionLayerImpl::make_cache(std::int64_t batch, std::int64_t capacity) const {
  if (!can_decode()) throw UsageError(expected_got("cache", "a mechanism whose rows stand alone", options_.mechanism));
  const std::int64_t shared = options_.used_key_value_heads();
  return KeyValueCache({.batch = batch,
                        .key_heads = shared,
                        .value_heads = shared / mechanism_.sub_heads(),
                        .capacity = capacity,
                        .head_dim = head_dim_,
                        .value_dim = head_dim_ * mechanism_.sub_heads()},
                       projection_->parameters().front().scalar_type());
}

at::Tensor AttentionLayerImpl::decode(const at::Tensor& x, KeyValueCache& cache) {
  const auto [query, key, value] = project(x, cache.longest());
  cache.append(key, value);
  return combine(cache.attend(query, mechanism_.operator_name, operator_options()));
}

at::Tensor AttentionLayerImpl::combine(const at::Tensor& attended) {
  // [B, N, heads, width]: as the kernel leaves it where the query lies so, without a copy.
  at::Tensor by_token = attended.transpose(1, 2);
  if (is_difference(mechanism_))
    // Training starts with the gradient scale of plain attention: the factor undoes what the norm adds.
    by_token = norm_of_sum(by_token.to(head_norm_.scalar_type()), {}, head_norm_ * (1 - lambda_init_), {},
                           NormKind::rms, 1e-5, BFloat16Products::enabled())
                   .normed;
  return output_(by_token.flatten(2));
}

at::Tensor AttentionLayerImpl::weights(const at::Tensor& x) {
  const auto [query, key, value] = project(x);
  return attention_weights(query, key, mechanism_.operator_name, operator_options());
}

std::vector<HeadStatistics> AttentionLayerImpl::statistics(const at::Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto [query, key, value] = project(x);
  const auto [output, rows] =
      attention_statistics(query, key, value, false, mechanism_.operator_name, operator_options());
  const std::int64_t heads = output.size(1), sharing = heads / value.size(1);
  const auto of_heads = [&](const at::Tensor& numbers) {  // [B, heads, …] → the mean of each head
    const at::Tensor means = numbers.to(at::kDouble).transpose(0, 1).flatten(1).mean(1).contiguous();
    return std::vector<double>(means.const_data_ptr<double>(), means.const_data_ptr<double>() + means.numel());
  };
  using Row = RowStatistics<double>;
  const std::vector<double> sum = of_heads(rows[Row::sum_at]), abs_sum = of_heads(rows[Row::abs_sum_at]),
                            negative_mass = of_heads(rows[Row::negative_mass_at]),
                            entropy = of_heads(rows[Row::entropy_at]), sink = of_heads(rows[Row::sink_at].abs()),
                            value_mean = of_heads(value), output_norm = of_heads(output.norm(2, -1));
  std::vector<HeadStatistics> statistics;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto i = static_cast<std::size_t>(h), of_value = static_cast<std::size_t>(h / sharing);
    statistics.push_back({.sink = sink[i],
                          .negative_mass = negative_mass[i],
                          .entropy = entropy[i],
                          .sum = sum[i],
                          .abs_sum = abs_sum[i],
                          .value_mean = value_mean[of_value],
                          .output_norm = output_norm[i]});
  }
  return statistics;
}

void AttentionLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation, double residual_standard_deviation) {
  projection_->initialize(initializer, name + (mechanism_.ties_keys ? ".query_value" : ".query_key_value"),
                          standard_deviation);
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

std::int64_t AttentionLayerImpl::parameter_count(const AttentionLayerOptions& options) {
  const Mechanism& mechanism = find_mechanism(options.mechanism);
  const std::int64_t width = options.width;
  const std::int64_t lambda_and_norm = is_difference(mechanism) ? (4 + 2) * (width / options.heads) : 0;
  const auto learned = static_cast<std::int64_t>(mechanism.parameter_initial.size()) * options.heads;
  return LinearImpl::parameter_count(width, total(projected_widths(options, mechanism)), options.bias) +
         LinearImpl::parameter_count(width, width, options.bias) + lambda_and_norm + learned;
}

}  // namespace cogwheel
