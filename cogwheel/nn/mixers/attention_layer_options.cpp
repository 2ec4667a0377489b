#include "cogwheel/nn/mixers/attention_layer_options.h"

#include <algorithm>

#include "cogwheel/attention/mechanisms/forms/differential.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/head_width.h"
#include "cogwheel/ops/pairwise/scores.h"

namespace cogwheel::nn {

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

bool is_difference(const Mechanism& mechanism) { return mechanism.sub_heads() == 2; }

double lambda_init_of(const AttentionLayerOptions& options) {
  if (!is_difference(find_mechanism(options.mechanism))) return 0;
  return Differential::lambda_init(static_cast<double>(options.layer + options.first_lambda_depth));
}

std::int64_t shared_width(const AttentionLayerOptions& options) {
  return options.used_head_dim() * options.used_key_value_heads();
}

std::int64_t inner_width(const AttentionLayerOptions& options) { return options.used_head_dim() * options.heads; }

std::vector<std::int64_t> projected_widths(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  const std::int64_t inner = inner_width(options), shared = shared_width(options);
  if (options.memory) return {inner};
  if (mechanism.ties_keys) return {inner, shared};
  return {inner, shared, shared};
}

std::string projection_name(const AttentionLayerOptions& options, const Mechanism& mechanism) {
  return options.memory ? "query" : mechanism.ties_keys ? "query_value" : "query_key_value";
}

}  // namespace cogwheel::nn
