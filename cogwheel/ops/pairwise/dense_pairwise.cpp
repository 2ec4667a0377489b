#include "cogwheel/ops/pairwise/dense_pairwise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <string>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/elementwise/row_map.h"
#include "cogwheel/ops/pairwise/visibility_mask.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/product.h"
#include "cogwheel/ops/support/shared_heads.h"

namespace cogwheel::ops {
namespace {

namespace place = pairwise_input;

// Repeats a tensor of the output heads for each of their query heads: [B or 1, H or 1, …] → [B or 1, Hq or 1, …].
at::Tensor for_sub_heads(const at::Tensor& shared, std::int64_t sub_heads) {
  if (sub_heads == 1 || shared.size(1) == 1) return shared;
  return shared.repeat_interleave(sub_heads, 1);
}

// ALiBi's −slope · |i + diagonal − j|, [B or 1, Hq, N, M].
at::Tensor decay(const QueryRows& queries, std::int64_t keys, const at::Tensor& query, const PairwiseOptions& options) {
  const at::Tensor origin = standing(queries, keys - queries.all, query, options);
  const at::Tensor distance = (origin - positions(keys, query)).abs().to(widest_type(query));
  const at::Tensor slopes = options.alibi->view({-1, 1, 1}).repeat_interleave(options.sub_heads, 0);
  return (slopes * distance).neg().to(query.scalar_type());
}

// exp(−(j − center)²/(2σ²)), [B, Hq, N, M].
at::Tensor gaussian(std::int64_t keys, const at::Tensor& centers, const PairwiseOptions& options) {
  const at::Tensor distance =
      positions(keys, centers).to(centers.scalar_type()) - for_sub_heads(centers, options.sub_heads).unsqueeze(-1);
  return (distance * distance * at::Scalar(-0.5 / (options.sigma * options.sigma))).exp();
}

}  // namespace

std::vector<at::Tensor> pairwise_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const PairwiseOptions& options) {
  std::vector<at::Tensor> inputs{query, key, value, parameters};
  for (const auto tensor : place::option_tensors) inputs.push_back((options.*tensor).value_or(at::Tensor()));
  return inputs;
}

DensePairwise::DensePairwise(const std::vector<at::Tensor>& inputs, std::string_view mechanism,
                             const PairwiseOptions& options, const DenseQueries& queries)
    : in_(inputs),
      mechanism_(mechanism),
      options_(options),
      rows_(queries.rows ? *queries.rows : QueryRows(inputs[place::query].sym_size(2))),
      pair_by_pair_(queries.pair_by_pair),
      heads_(inputs[place::query].size(1)) {
  const at::ScalarType computed = computed_type(inputs[place::query]);
  for (std::size_t i : {place::query, place::key, place::value}) in_[i] = in_[i].to(computed);
  const at::Tensor& query = in_[place::query];
  const std::int64_t keys = in_[place::key].size(2), sub_heads = options.sub_heads;
  zero_ = at::zeros({}, query.options());

  visible_ = at::ones({1, 1, query.size(2), keys}, query.options().dtype(at::kBool));
  if (const at::Tensor seen = visibility_mask(rows_, keys, query, options); seen.defined())
    visible_ = visible_.logical_and(for_sub_heads(seen, sub_heads));
  // A broadcast bias with all of its dimensions.
  const auto read = [&](place::Place which) {
    if (!in_[which].defined()) return at::Tensor();
    const at::Tensor whole =
        for_sub_heads(in_[which].expand({query.size(0), heads_ / sub_heads, query.size(2), keys}), sub_heads);
    visible_ = visible_.logical_and(is_not_hidden(whole));
    return whole;
  };
  const at::Tensor bias = read(place::bias), energy_bias = read(place::energy_bias);
  // Hidden pairs get a score of 0 and a weight of 0, and keys that no query sees become 0, values too: 0·NaN would be
  // NaN, in derivatives too.
  count_ = visible_.sum(at::IntArrayRef{-1}, true).to(computed);
  sees_ = count_ > at::Scalar(0);
  seen_ = visible_.any(-2).unsqueeze(-1);
  const at::Tensor key = at::where(seen_, for_query_heads(in_[place::key], heads_, sub_heads), zero_);

  const at::Tensor queries_that_see = at::where(sees_, query, zero_);
  const at::Tensor& weight = in_[place::score_weight];
  if (!weight.defined() && !pair_by_pair_) {
    score_ = product(queries_that_see, key.mT());
  } else {
    const at::Tensor rows = queries_that_see.unsqueeze(3);
    const at::Tensor columns = masked(key.unsqueeze(2));  // [B, Hq, N or 1, M, D]
    score_ = weight.defined() ? ((rows + columns).tanh() * weight.view({heads_, 1, 1, weight.size(1)})).sum(-1)
                              : (rows * columns).sum(-1);
  }
  score_ = score_ * at::Scalar(options.scale);
  if (options.softcap > 0) score_ = (score_ / at::Scalar(options.softcap)).tanh() * at::Scalar(options.softcap);
  const auto add = [&](at::Tensor& to, const at::Tensor& more) {
    if (more.defined()) to = to.defined() ? to + more : more;
  };
  if (options.alibi)
    add(find_mechanism(mechanism).pairwise()->has_energy ? exponent_ : score_, decay(rows_, keys, query, options));
  add(score_, bias);
  add(exponent_, energy_bias);
  score_ = at::where(visible_, score_, zero_);
  if (exponent_.defined()) exponent_ = at::where(visible_, exponent_, zero_);
}

// Keys or values with 0 where the query does not see them, where products are made pair by pair: [B, Hq, 1, M, width] →
// [B, Hq, N or 1, M, width].
at::Tensor DensePairwise::masked(const at::Tensor& of_pairs) const {
  return pair_by_pair_ ? at::where(visible_.unsqueeze(-1), of_pairs, zero_) : of_pairs;
}

at::Tensor DensePairwise::scores() const {
  return score_.masked_fill(visible_.logical_not(), -std::numeric_limits<double>::infinity());
}

at::Tensor DensePairwise::shift() const {
  // Without keys the maximum is the value at which it starts.
  const bool keys = score_.size(3) > 0;
  const at::Tensor score =
      keys ? score_.detach() : at::zeros({score_.size(0), heads_, score_.size(2), 1}, score_.options());
  const at::Tensor found = row_map(score, zero_, zero_, in_[place::parameters].detach(), mechanism_, "energy");
  const at::Tensor initial = found.select(0, 1);
  if (!keys) return initial.squeeze(-1);
  at::Tensor energy = found.select(0, 0);
  if (exponent_.defined()) energy = energy + exponent_.detach();
  return at::where(visible_, at::maximum(energy, initial), initial).amax(at::IntArrayRef{-1});
}

DenseWeights DensePairwise::weigh(const at::Tensor& shift) const {
  const at::Tensor row_shift = at::where(sees_, shift.detach().unsqueeze(-1), zero_);  // [B, Hq, N, 1]
  const at::Tensor key_shift = exponent_.defined() ? row_shift - exponent_ : row_shift;
  const at::Tensor& parameters = in_[place::parameters];
  const at::Tensor of_scores = row_map(score_, key_shift, count_, parameters, mechanism_, "terms");
  DenseWeights result;
  result.terms = at::where(visible_, of_scores.select(0, 0), zero_);
  result.mass = at::where(visible_, of_scores.select(0, 1), zero_).sum(at::IntArrayRef{-1}, true);
  const at::Tensor total = row_map(result.mass, row_shift, count_, parameters, mechanism_, "normalizer").select(0, 0);
  const std::int64_t keys = score_.size(3);
  const auto multiply = [&](const at::Tensor& by) {
    result.factors = result.factors.defined() ? result.factors * by : by;
    result.terms = result.terms * by;
  };
  if (in_[place::centers].defined()) multiply(gaussian(keys, in_[place::centers], options_));
  if (options_.dropout > 0) {
    const std::int64_t size[] = {score_.size(0), heads_ / options_.sub_heads, score_.size(2), keys};
    multiply(for_sub_heads(dropout_factors(*options_.seed, size, rows_.first.expect_int(), options_.dropout, score_),
                           options_.sub_heads));
  }
  result.weights = result.terms / at::where(sees_, total, at::ones({}, score_.options()));
  return result;
}

at::Tensor DensePairwise::uniform_weights() const { return at::where(visible_, count_.reciprocal(), zero_); }

at::Tensor DensePairwise::output(const at::Tensor& weights) const {
  at::Tensor value = in_[place::value];
  if (are_identity(value)) return weights;
  if (value.size(1) != heads_) value = value.repeat_interleave(heads_ / value.size(1), 1);
  value = at::where(seen_, value, zero_);
  return pair_by_pair_ ? (weights.unsqueeze(-1) * masked(value.unsqueeze(2))).sum(3) : product(weights, value);
}

at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options, bool wide) {
  const DensePairwise composition(inputs, mechanism, options);
  const at::Tensor output = composition.output(composition.weigh(shift).weights);
  return wide ? output : output.to(inputs[place::query].scalar_type());
}

}  // namespace cogwheel::ops
