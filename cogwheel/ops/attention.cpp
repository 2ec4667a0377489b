#include "cogwheel/ops/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>
#include <sstream>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention_options.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/dense_forms.h"
#include "cogwheel/ops/mixture.h"
#include "cogwheel/ops/operators.h"
#include "cogwheel/ops/pairwise.h"
#include "cogwheel/ops/parameters.h"
#include "cogwheel/ops/scores.h"

namespace cogwheel {
namespace {

const Mechanism& find_operator(std::string_view name) {
  const Mechanism* mechanism = nullptr;
  try {
    mechanism = &find_mechanism(name, "attention: mechanism");
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
  if (mechanism->description.level == "layer")
    refuse("mechanism", "an operator",
           std::string(name) + ", a layer (it makes its own queries and keys): use it in a model");
  return *mechanism;
}

at::Tensor attend(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionOptions& given, std::string_view causal_mask = mask::causal) {
  if (mechanism.kind == MechanismKind::dense) return dense_attention(mechanism, query, key, value, given, causal_mask);
  const ScoredHeads scored = score_heads(mechanism, query, key, value, given);
  PairwiseOptions options = pairwise_options(mechanism, scored.query, scored.key, given, causal_mask);
  if (scored.scale) options.scale = *scored.scale;
  options.score_weight = scored.score_weight;
  const auto run = [&](const at::Tensor& parameters, std::string_view row_map) {
    return std::get<0>(pairwise(scored.query, scored.key, scored.value, parameters, row_map, options));
  };
  const at::Tensor output = run(row_map_parameters(mechanism, given.parameters, query), mechanism.member);
  if (!mechanism.subtracted.empty()) return output - run(no_parameters(query), mechanism.subtracted);
  if (mechanism.sub_heads == 1) return output;
  return subtract_sub_heads(output, mixture_coefficient(given.parameters, output));
}

// What is true stays visible.
at::Tensor bias_of(const at::Tensor& visible, const at::Tensor& query) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return at::zeros_symint(visible.sym_sizes(), query.options()).masked_fill(visible.logical_not(), hidden);
}

MechanismParameters named(at::TensorList tensors, const std::vector<std::string>& names) {
  if (tensors.size() != names.size())
    refuse("parameters", std::to_string(names.size()) + " tensors (as names)", std::to_string(tensors.size()));
  MechanismParameters parameters;
  for (std::size_t i = 0; i < names.size(); ++i) parameters.emplace_back(names[i], tensors[i]);
  return parameters;
}

}  // namespace

namespace operators {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     c10::string_view mechanism, bool causal, std::optional<double> scale,
                     std::optional<std::int64_t> window, const std::optional<at::Tensor>& key_lengths,
                     const std::optional<at::Tensor>& cu_seqlens, const std::optional<at::Tensor>& bias,
                     const std::optional<at::Tensor>& energy_bias, const std::optional<at::Tensor>& alibi,
                     std::optional<double> local_radius, const std::optional<at::Tensor>& local_centers, double dropout,
                     const std::optional<at::Tensor>& seed, c10::string_view score,
                     const std::optional<at::Tensor>& score_weight, const std::optional<at::Tensor>& score_projection,
                     at::TensorList parameters, const std::vector<std::string>& parameter_names) {
  return cogwheel::attention(query, key, value, mechanism,
                             {.causal = causal,
                              .scale = scale,
                              .score = std::string(score),
                              .score_weight = score_weight,
                              .score_projection = score_projection,
                              .window = window,
                              .key_lengths = key_lengths,
                              .cu_seqlens = cu_seqlens,
                              .bias = bias,
                              .energy_bias = energy_bias,
                              .alibi = alibi,
                              .local_radius = local_radius,
                              .local_centers = local_centers,
                              .dropout = dropout,
                              .seed = seed,
                              .parameters = named(parameters, parameter_names)});
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, c10::string_view mechanism, bool causal,
                             std::optional<double> scale, std::optional<std::int64_t> window,
                             const std::optional<at::Tensor>& key_lengths, const std::optional<at::Tensor>& cu_seqlens,
                             const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& energy_bias,
                             const std::optional<at::Tensor>& alibi, std::optional<double> local_radius,
                             const std::optional<at::Tensor>& local_centers, double dropout,
                             const std::optional<at::Tensor>& seed, c10::string_view score,
                             const std::optional<at::Tensor>& score_weight,
                             const std::optional<at::Tensor>& score_projection, at::TensorList parameters,
                             const std::vector<std::string>& parameter_names) {
  return cogwheel::attention_weights(query, key, mechanism,
                                     {.causal = causal,
                                      .scale = scale,
                                      .score = std::string(score),
                                      .score_weight = score_weight,
                                      .score_projection = score_projection,
                                      .window = window,
                                      .key_lengths = key_lengths,
                                      .cu_seqlens = cu_seqlens,
                                      .bias = bias,
                                      .energy_bias = energy_bias,
                                      .alibi = alibi,
                                      .local_radius = local_radius,
                                      .local_centers = local_centers,
                                      .dropout = dropout,
                                      .seed = seed,
                                      .parameters = named(parameters, parameter_names)});
}

at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        c10::string_view mechanism, const std::optional<at::Tensor>& attn_mask,
                                        double dropout_p, const std::optional<at::Tensor>& seed, bool is_causal,
                                        std::optional<double> scale, bool enable_gqa) {
  if (query.dim() == 3 && key.dim() == 3 && value.dim() == 3) {
    std::optional<at::Tensor> mask = attn_mask;
    if (mask && mask->dim() == 3) mask = mask->unsqueeze(1);
    return scaled_dot_product_attention(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mechanism, mask,
                                        dropout_p, seed, is_causal, scale, enable_gqa)
        .squeeze(1);
  }
  const Mechanism& found = find_operator(mechanism);
  check_attention(query, key, value, found.sub_heads);
  check_parameter_names(found, {});
  if (!enable_gqa && query.sym_size(1) != key.sym_size(1)) {
    std::ostringstream heads;
    heads << query.sym_size(1);
    const std::string expected = heads.str() + " (as query; or enable_gqa)";
    heads.str("");
    heads << key.sym_size(1);
    refuse("key heads", expected, heads.str());
  }
  AttentionOptions options;
  options.causal = is_causal;
  options.scale = scale;
  options.dropout = dropout_p;
  options.seed = seed;
  if (attn_mask) {
    if (is_causal) refuse("attn_mask", "none where is_causal", "a mask " + shape_text(*attn_mask));
    options.bias = attn_mask->scalar_type() == at::kBool ? bias_of(*attn_mask, query) : *attn_mask;
  }
  return attend(found, query, key, value, options, mask::causal_first);
}

}  // namespace operators

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism, const AttentionOptions& options) {
  const Mechanism& found = find_operator(mechanism);
  check_attention(query, key, value, found.sub_heads, needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  return attend(found, query, key, value, options);
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism,
                             const AttentionOptions& options) {
  const Mechanism& found = find_operator(mechanism);
  check_query_key(query, key, found.sub_heads, needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  const c10::SymInt keys = key.sym_size(2);
  if (keys == 0)
    return query.new_zeros_symint({query.sym_size(0), query.sym_size(1) / found.sub_heads, query.sym_size(2), 0});
  const at::Tensor identity = at::eye_symint(keys, query.options())
                                  .expand_symint({key.sym_size(0), key.sym_size(1) / found.sub_heads, keys, keys});
  return attend(found, query, key, identity, options);
}

}  // namespace cogwheel
