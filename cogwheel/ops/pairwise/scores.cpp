#include "cogwheel/ops/pairwise/scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "cogwheel/ops/pairwise/seen_keys.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/product.h"
#include "cogwheel/ops/support/shared_heads.h"
#include "cogwheel/ops/support/vector_length.h"

namespace cogwheel::ops {
namespace {

constexpr std::string_view dot = "dot", general = "general", cosine = "cosine", additive = "additive",
                           concat = "concat";
constexpr std::string_view scores[] = {dot, general, cosine, additive, concat};

std::string known_scores() {
  std::string known;
  for (std::string_view each : scores) known.append(known.empty() ? "" : each == concat ? " or " : ", ").append(each);
  return known;
}

// One of the score's tensors: required if it has sizes, refused if not.
void check_weight(std::string_view name, const std::optional<at::Tensor>& given, std::string_view score,
                  std::initializer_list<c10::SymInt> sizes, const at::Tensor& query) {
  const auto refuse_shape = [&] {
    const std::string expected =
        sizes.size() == 0 ? "none" : shape_text(c10::SymIntArrayRef(sizes.begin(), sizes.size()));
    refuse(name, expected + " (score " + std::string(score) + ")", given ? shape_text(*given) : "nothing");
  };
  if (given.has_value() != (sizes.size() > 0)) refuse_shape();
  if (!given) return;
  bool fits = given->dim() == static_cast<std::int64_t>(sizes.size());
  std::int64_t dimension = 0;
  for (const c10::SymInt& size : sizes) fits = fits && given->sym_size(dimension++) == size;
  if (!fits) refuse_shape();
  check_like(name, *given, query);
}

// Vectors of length 1; one of length 0 stays 0.
at::Tensor directions(const at::Tensor& x) { return x / vector_length(x).clamp_min(1e-12); }

}  // namespace

std::vector<std::string> score_names() { return {std::begin(scores), std::end(scores)}; }

void check_score(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                 const AttentionOptions& options) {
  const std::string_view score = options.score;
  if (std::find(std::begin(scores), std::end(scores), score) == std::end(scores))
    refuse("score", known_scores(), std::string(score));
  if (mechanism.takes_cosines() && score != dot && score != cosine)
    refuse("score", "dot or cosine (" + std::string(mechanism.description.name) + " reads cosines)",
           std::string(score));
  const c10::SymInt heads = query.sym_size(1), query_dim = query.sym_size(3), key_dim = key.sym_size(3);
  if (score == general)
    check_weight("score_weight", options.score_weight, score, {heads, query_dim, key_dim}, query);
  else if (score == additive)
    check_weight("score_weight", options.score_weight, score, {heads, query_dim}, query);
  else if (score != concat)
    check_weight("score_weight", options.score_weight, score, {}, query);
  if (score != concat) return check_weight("score_projection", options.score_projection, score, {}, query);

  const bool has_width = options.score_projection && options.score_projection->dim() == 3;
  const c10::SymInt width = has_width ? options.score_projection->sym_size(1) : query_dim;
  check_weight("score_projection", options.score_projection, score, {heads, width, query_dim + key_dim}, query);
  check_head_dim("score_projection width", width);
  check_weight("score_weight", options.score_weight, score, {heads, width}, query);
}

bool needs_one_width(std::string_view score) { return score != general && score != concat; }

ScoredHeads score_heads(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const AttentionOptions& options, const PairwiseOptions& seen) {
  // Hidden keys matter to gradients only: these are 0 there, times the key's values.
  const auto as_seen = [&](const at::Tensor& keys) {
    return at::GradMode::is_enabled() ? without_unseen(keys, query.sym_size(2), seen) : keys;
  };
  // A map that takes cosines expects them between −1 and 1: no scale.
  if (mechanism.takes_cosines()) return {directions(query), directions(as_seen(key)), value, 1, {}};
  const std::string_view score = options.score;
  const auto one_over_root = [](const at::Tensor& tensor) {
    return 1 / std::sqrt(static_cast<double>(tensor.sym_size(3).guard_int(__FILE__, __LINE__)));
  };
  const bool is_product = score == dot || score == general;
  const double scale = options.scale ? *options.scale : is_product ? one_over_root(key) : 1;
  if (!std::isfinite(scale)) refuse("scale", "a finite number", std::to_string(scale));
  if (score == general) return {product(query, *options.score_weight), key, value, scale, {}};
  if (score == dot) return {query, key, value, scale, {}};
  if (score == cosine) return {directions(query), directions(as_seen(key)), value, scale, {}};
  if (score == additive) return {query, key, value, scale, options.score_weight};
  const at::Tensor projection = options.score_projection->transpose(1, 2);  // [Hq, D + Dk, Da]
  const c10::SymInt query_dim = query.sym_size(3), heads = query.sym_size(1);
  const at::Tensor keys = as_seen(for_query_heads(key, heads, mechanism.sub_heads()));
  return {product(query, projection.slice_symint(1, 0, query_dim)),
          product(keys, projection.slice_symint(1, query_dim)),
          for_query_heads(value, heads / mechanism.sub_heads(), 1), scale, options.score_weight};
}

}  // namespace cogwheel::ops
