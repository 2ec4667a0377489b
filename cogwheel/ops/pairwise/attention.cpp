#include "cogwheel/ops/pairwise/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>
#include <string>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/attention_options.h"
#include "cogwheel/ops/pairwise/attention_schema.h"
#include "cogwheel/ops/pairwise/dense_mechanisms.h"
#include "cogwheel/ops/pairwise/dense_pairwise.h"
#include "cogwheel/ops/pairwise/mixture.h"
#include "cogwheel/ops/pairwise/operators.h"
#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_pass.h"
#include "cogwheel/ops/pairwise/parameters.h"
#include "cogwheel/ops/pairwise/scores.h"
#include "cogwheel/ops/pairwise/statistics_of_weights.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/key_panels.h"

namespace cogwheel::ops {
namespace {

const Mechanism& find_mechanism_of_attention(std::string_view name) {
  const Mechanism* mechanism = nullptr;
  try {
    mechanism = &find_mechanism(name, "attention: mechanism");
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
  if (mechanism->recurrent() != nullptr)
    refuse("mechanism", "a mechanism of attention (cogwheel.recurrent takes this one)", std::string(name));
  if (mechanism->is_layer)
    refuse("mechanism", "an operator",
           std::string(name) + ", a layer (it makes its own queries and keys): use it in a model");
  return *mechanism;
}

constexpr std::int64_t max_keys_of_argmax = 1 << 24;  // a kernel counts in its compute dtype

// Statistics requested from a call besides its output.
struct AskedStatistics {
  bool argmax;
  at::Tensor rows = {};  // [12, B, H, N], set by the call
};

// Values without columns, which stand for the identity: the output is the weights.
at::Tensor identity_values(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key) {
  return at::empty_symint({key.sym_size(0), key.sym_size(1) / mechanism.sub_heads(), key.sym_size(2), 0},
                          query.options());
}

at::Tensor attend_as_given(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const AttentionOptions& given, std::string_view causal_mask,
                           AskedStatistics* asked, const at::Tensor& panels, PairwisePass& pass) {
  if (mechanism.is_matrix()) {
    if (asked) {
      const at::NoGradGuard no_gradient;
      asked->rows = statistics_of_weights(
          dense_attention(mechanism, query, key, identity_values(mechanism, query, key), given, causal_mask),
          keys_seen(query.sym_size(2), key.sym_size(2), given.causal, given.key_lengths.value_or(at::Tensor()), query));
    }
    return dense_attention(mechanism, query, key, value, given, causal_mask);
  }
  const PairwiseMechanism& family = *mechanism.pairwise();
  PairwiseOptions options = pass.options(mechanism, query, key, given, causal_mask);
  const ScoredHeads scored = score_heads(mechanism, query, key, value, given, pass.seen(options));
  options.scale = scored.scale;
  options.score_weight = scored.score_weight;
  const bool mixture = family.sub_heads > 1 || !family.subtracted.empty(), argmax = asked && asked->argmax;
  const WantedOutputs wanted{.wide = family.is_form(), .statistics = asked && !mixture, .argmax = argmax};
  const at::Tensor parameters = row_map_parameters(mechanism, given.parameters, query);
  const at::Tensor& keys = panels.defined() ? panels : scored.key;
  const auto [output, shift, mass, statistics] =
      pass.pairwise(scored.query, keys, scored.value, parameters, family.member, options, wanted);
  if (asked) asked->rows = statistics;
  if (!mixture) return output;

  std::optional<at::Tensor> coefficient;
  if (family.sub_heads > 1) coefficient = mixture_coefficient(given.parameters, output);
  if (asked) {
    const at::NoGradGuard no_gradient;
    asked->rows = pass.mixture_statistics(scored.query, scored.key, scored.value, parameters,
                                          {shift, mass, coefficient ? std::optional(-*coefficient) : std::nullopt},
                                          family.member, options, argmax);
  }
  if (coefficient) return subtract_sub_heads(output, *coefficient);
  return output - std::get<0>(pass.pairwise(scored.query, keys, scored.value, no_parameters(query), family.subtracted,
                                            options, {.wide = wanted.wide}));
}

// Converts every tensor of the query's 16-bit type to float32, the compute dtype.
AttentionOptions widened(const AttentionOptions& given, const at::Tensor& query) {
  const auto widen = [&](at::Tensor& tensor) {
    if (tensor.scalar_type() == query.scalar_type()) tensor = tensor.to(computed_type(query));
  };
  AttentionOptions options = given;
#define ATTENTION_DIFFERENTIABLE(name) \
  if (options.name) widen(*options.name);
#include "cogwheel/ops/pairwise/attention_options.def"
  for (auto& [name, tensor] : options.parameters) widen(tensor);
  return options;
}

// Whether keys reach the kernel as they are given.
bool reads_keys_as_given(const Mechanism& mechanism, const AttentionOptions& options) {
  return !mechanism.is_matrix() && !mechanism.takes_cosines() && options.score == "dot";
}

// Kernels widen 16-bit queries, keys and values as they read them, and give forms float32 outputs to combine. Other
// scores and dense mechanisms are computed in float32 throughout. Results are rounded once. Where `panels` are defined,
// the keys are read from there, and `key` has their sizes.
at::Tensor attend(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionOptions& given, std::string_view causal_mask = mask::causal,
                  AskedStatistics* asked = nullptr, const at::Tensor& panels = {}, PairwisePass* other = nullptr) {
  PairwisePass here;
  PairwisePass& pass = other == nullptr ? here : *other;
  const at::ScalarType computed = computed_type(query);
  if (computed == query.scalar_type())
    return attend_as_given(mechanism, query, key, value, given, causal_mask, asked, panels, pass);
  const AttentionOptions options = widened(given, query);
  if (reads_keys_as_given(mechanism, given))
    return attend_as_given(mechanism, query, key, value, options, causal_mask, asked, panels, pass)
        .to(query.scalar_type());
  return attend_as_given(mechanism, query.to(computed), key.to(computed), value.to(computed), options, causal_mask,
                         asked, {}, pass)
      .to(query.scalar_type());
}

// Keys with true stay visible.
at::Tensor bias_of(const at::Tensor& visible, const at::Tensor& query) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return at::zeros_symint(visible.sym_sizes(), query.options()).masked_fill(visible.logical_not(), hidden);
}

}  // namespace

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
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  check_attention(query, key, value, found.sub_heads());
  check_parameter_names(found, {});
  if (!enable_gqa && query.sym_size(1) != key.sym_size(1)) {
    refuse("key heads", size_text(query.sym_size(1)) + " (as query; or enable_gqa)", size_text(key.sym_size(1)));
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

MechanismParameters named_parameters(at::TensorList tensors, const std::vector<std::string>& names) {
  if (tensors.size() != names.size())
    refuse("parameters", std::to_string(names.size()) + " tensors (as names)", std::to_string(tensors.size()));
  MechanismParameters parameters;
  for (std::size_t i = 0; i < names.size(); ++i) parameters.emplace_back(names[i], tensors[i]);
  return parameters;
}

PairwiseOptions PairwisePass::options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                      const AttentionOptions& given, std::string_view causal_mask) {
  return pairwise_options(mechanism, query, key, given, causal_mask);
}

PairwiseOutputs PairwisePass::pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const at::Tensor& parameters, std::string_view map,
                                       const PairwiseOptions& options, const WantedOutputs& wanted) {
  return ops::pairwise(query, key, value, parameters, map, options, wanted);
}

at::Tensor PairwisePass::mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const at::Tensor& parameters, const MixtureMembers& members,
                                            std::string_view map, const PairwiseOptions& options, bool argmax) {
  return ops::mixture_statistics(query, key, value, parameters, members, map, options, argmax);
}

at::Tensor attention_by(PairwisePass& pass, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        std::string_view mechanism, const AttentionOptions& options) {
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  check_attention(query, key, value, found.sub_heads(), needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  return attend(found, query, key, value, options, mask::causal, nullptr, {}, &pass);
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism, const AttentionOptions& options) {
  PairwisePass here;
  return attention_by(here, query, key, value, mechanism, options);
}

at::Tensor attention_over_panels(const at::Tensor& query, const at::Tensor& panels, const at::Tensor& value,
                                 std::string_view mechanism, const AttentionOptions& options) {
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  if (!reads_keys_as_given(found, options))
    return attention(query, rows_of_panels(panels, value.sym_size(2)), value, mechanism, options);
  const at::Tensor key = sizes_of_rows(panels, value.sym_size(2));
  check_attention(query, key, value, found.sub_heads());
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  return attend(found, query, key, value, options, mask::causal, nullptr, panels);
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism,
                             const AttentionOptions& options) {
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  check_query_key(query, key, found.sub_heads(), needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  if (key.sym_size(2) == 0) {  // the first none of the columns of values, which have one at least
    const at::Tensor value = key.new_zeros_symint({key.sym_size(0), key.sym_size(1) / found.sub_heads(), 0, 1});
    return attend(found, query, key, value, options).narrow(-1, 0, 0);
  }
  return attend(found, query, key, identity_values(found, query, key), options);
}

at::Tensor attention_scores(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism,
                            const AttentionOptions& options) {
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  check_query_key(query, key, found.sub_heads(), needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  const PairwiseOptions seen = pairwise_options(found, query, key, options, mask::causal);
  // Any number of values: they are not read.
  const at::Tensor none = key.narrow(1, 0, key.size(1) / found.sub_heads());
  const ScoredHeads scored = score_heads(found, query, key, none, options, seen);
  PairwiseOptions dense = seen;
  dense.scale = scored.scale;
  dense.score_weight = scored.score_weight;
  const std::string_view member = found.is_matrix() ? "softmax" : found.pairwise()->member;
  return DensePairwise(pairwise_inputs(scored.query, scored.key, scored.value, {}, dense), member, dense).scores();
}

at::Tensor attention_weights_of_scores(const at::Tensor& scores, std::string_view mechanism,
                                       const AttentionOptions& options) {
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  if (found.is_matrix() || found.sub_heads() > 1)
    refuse("mechanism", "one whose weights are a function of each row of scores", std::string(mechanism));
  if (scores.dim() != 4) refuse("scores", "[batch, heads, queries, keys]", shape_text(scores));
  // Queries and keys without an effect; the scores come as a bias.
  constexpr std::int64_t width = 8;
  const at::Tensor query = at::zeros({scores.size(0), scores.size(1), scores.size(2), width}, scores.options()),
                   key = at::zeros({scores.size(0), scores.size(1), scores.size(3), width}, scores.options());
  check_parameter_names(found, options.parameters);
  if (scores.size(3) == 0) return scores;
  const PairwiseMechanism& family = *found.pairwise();
  PairwiseOptions dense = pairwise_options(found, query, key, options, mask::causal);
  dense.scale = 1;
  dense.bias = scores;
  if (!family.has_energy) dense.alibi.reset();  // the scores have it
  const at::Tensor identity = identity_values(found, query, key);
  const auto weights_of = [&](const at::Tensor& parameters, std::string_view member) {
    return std::get<0>(pairwise(query, key, identity, parameters, member, dense));
  };
  const at::Tensor weights = weights_of(row_map_parameters(found, options.parameters, query), family.member);
  return family.subtracted.empty() ? weights : weights - weights_of(no_parameters(query), family.subtracted);
}

std::tuple<at::Tensor, at::Tensor> attention_statistics_by(PairwisePass& pass, const at::Tensor& query,
                                                           const at::Tensor& key, const at::Tensor& value, bool argmax,
                                                           std::string_view mechanism,
                                                           const AttentionOptions& options) {
  if (argmax && key.dim() == 4 && key.sym_size(2) > max_keys_of_argmax)
    refuse("argmax", "at most " + std::to_string(max_keys_of_argmax) + " keys", size_text(key.sym_size(2)));
  const Mechanism& found = find_mechanism_of_attention(mechanism);
  check_attention(query, key, value, found.sub_heads(), needs_one_width(options.score));
  check_parameter_names(found, options.parameters);
  check_score(found, query, key, options);
  AskedStatistics asked{argmax};
  const at::Tensor output = attend(found, query, key, value, options, mask::causal, &asked, {}, &pass);
  return {output, asked.rows};
}

std::tuple<at::Tensor, at::Tensor> attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax,
                                                        std::string_view mechanism, const AttentionOptions& options) {
  PairwisePass here;
  return attention_statistics_by(here, query, key, value, argmax, mechanism, options);
}

}  // namespace cogwheel::ops
