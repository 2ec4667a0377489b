#include "cogwheel/nn/attention.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/differential.h"

namespace cogwheel {
namespace {

bool ties_keys(const Mechanism& mechanism) { return mechanism.kind == MechanismKind::tied; }
bool is_difference(const Mechanism& mechanism) { return mechanism.sub_heads == 2; }

// The operator that runs for the layer: a tied layer's is that of its row map.
std::string_view operator_name(const Mechanism& mechanism) {
  return ties_keys(mechanism) ? mechanism.member : mechanism.description.name;
}

// [B, N, heads · head_dim] → [B, heads, N, head_dim], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2);
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
  if (options.heads % mechanism.sub_heads != 0)
    throw UsageError(expected_got("heads", "an even number for " + options.mechanism, std::to_string(options.heads)));
}

AttentionLayerImpl::AttentionLayerImpl(const AttentionLayerOptions& options)
    : options_(options), mechanism_(find_mechanism(options.mechanism)) {
  check(options);
  head_dim_ = options.width / options.heads;
  if (ties_keys(mechanism_))
    projection_ = register_module("query_value", Linear(options.width, 2 * options.width, options.bias));
  else
    projection_ = register_module("query_key_value", Linear(options.width, 3 * options.width, options.bias));
  output_ = register_module("output", Linear(options.width, options.width, options.bias));
  if (is_difference(mechanism_)) {
    lambda_init_ = Differential::lambda_init(static_cast<int>(options.layer));
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

AttentionOptions AttentionLayerImpl::operator_options() const {
  AttentionOptions options{.causal = options_.causal, .scale = {}, .lam = lambda()};
  if (options.lam) options.lam = options.lam->expand({options_.heads / mechanism_.sub_heads});
  return options;
}

AttentionLayerImpl::Heads AttentionLayerImpl::project(const at::Tensor& x) {
  // One split, whose backward pass gathers the gradients of all parts with one copy.
  const auto parts = projection_(x).split(options_.width, -1);
  const at::Tensor query = split_heads(parts.front(), options_.heads);
  const at::Tensor value = split_heads(parts.back(), options_.heads / mechanism_.sub_heads);
  return {query, ties_keys(mechanism_) ? query : split_heads(parts[1], options_.heads), value};
}

at::Tensor AttentionLayerImpl::forward(const at::Tensor& x) {
  const auto [query, key, value] = project(x);
  at::Tensor heads = attention(query, key, value, operator_name(mechanism_), operator_options());
  if (is_difference(mechanism_))
    // Training starts with the gradient scale of plain attention: the factor undoes what the norm adds.
    heads = at::rms_norm(heads, {2 * head_dim_}, head_norm_ * (1 - lambda_init_), 1e-5);
  return output_(heads.transpose(1, 2).flatten(2));
}

at::Tensor AttentionLayerImpl::weights(const at::Tensor& x) {
  const auto [query, key, value] = project(x);
  return attention_weights(query, key, operator_name(mechanism_), operator_options());
}

void AttentionLayerImpl::initialize(const WeightInitializer& initializer, const std::string& name,
                                    double standard_deviation, double residual_standard_deviation) {
  projection_->initialize(initializer, name + (ties_keys(mechanism_) ? ".query_value" : ".query_key_value"),
                          standard_deviation);
  output_->initialize(initializer, name + ".output", residual_standard_deviation);
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
  const std::int64_t projections = ties_keys(mechanism) ? 2 : 3;
  const std::int64_t lambda_and_norm = is_difference(mechanism) ? (4 + 2) * (width / options.heads) : 0;
  return LinearImpl::parameter_count(width, projections * width, options.bias) +
         LinearImpl::parameter_count(width, width, options.bias) + lambda_and_norm;
}

}  // namespace cogwheel
