#include "cogwheel/ops/dense_pairwise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <string>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/product.h"
#include "cogwheel/ops/row_map.h"
#include "cogwheel/ops/shared_heads.h"
#include "cogwheel/ops/visible_pairs.h"

namespace cogwheel {
namespace {

namespace place = pairwise_input;

struct Sizes {
  std::int64_t batch, heads, sub_heads, queries, keys;  // query heads

  std::int64_t output_heads() const { return heads / sub_heads; }
};

// What output heads share, for each of their query heads: [B or 1, H or 1, …] → [B or 1, Hq or 1, …].
at::Tensor for_sub_heads(const at::Tensor& shared, std::int64_t sub_heads) {
  if (sub_heads == 1 || shared.size(1) == 1) return shared;
  return shared.repeat_interleave(sub_heads, 1);
}

// A broadcast bias with all of its dimensions.
at::Tensor whole(const at::Tensor& bias, const Sizes& sizes) {
  return for_sub_heads(bias.expand({sizes.batch, sizes.output_heads(), sizes.queries, sizes.keys}), sizes.sub_heads);
}

// [B or 1, Hq or 1, N, M], true where the query sees the key.
at::Tensor visible_to_heads(const Sizes& sizes, const at::Tensor& query, const PairwiseOptions& options) {
  const at::Tensor every = at::ones({1, 1, sizes.queries, sizes.keys}, query.options().dtype(at::kBool));
  const at::Tensor visible = visible_pairs(sizes.queries, sizes.keys, query, options);
  return visible.defined() ? every.logical_and(for_sub_heads(visible, sizes.sub_heads)) : every;
}

// query and key [B, Hq, …, D]
at::Tensor scores(const at::Tensor& query, const at::Tensor& key, const at::Tensor& weight, double scale) {
  if (!weight.defined()) return product(query, key.mT()) * at::Scalar(scale);
  const at::Tensor sums = query.unsqueeze(3) + key.unsqueeze(2);  // [B, Hq, N, M, D]
  return (sums.tanh() * weight.view({sums.size(1), 1, 1, sums.size(4)})).sum(-1) * at::Scalar(scale);
}

// ALiBi's −slope · |i + diagonal − j|, [B or 1, Hq, N, M].
at::Tensor decay(const Sizes& sizes, const at::Tensor& query, const PairwiseOptions& options) {
  const at::Tensor origin = standing(sizes.queries, sizes.keys - sizes.queries, query, options);
  const at::Tensor distance = (origin - positions(sizes.keys, query)).abs().to(at::kDouble);
  const at::Tensor slopes = options.alibi->view({sizes.output_heads(), 1, 1}).repeat_interleave(sizes.sub_heads, 0);
  return (slopes * distance).neg().to(query.scalar_type());
}

// What dropout multiplies weights by, [B, Hq, N, M]: the kernel draws it, as the weights of the uniform map.
at::Tensor drawn(const Sizes& sizes, const at::Tensor& query, const PairwiseOptions& options) {
  if (sizes.keys == 0) return at::ones({sizes.batch, sizes.heads, sizes.queries, 0}, query.options());
  constexpr std::int64_t head_dim = 8;
  const PairwiseOptions only{.dropout = options.dropout, .seed = options.seed};
  const at::Tensor nothing = at::zeros({sizes.batch, sizes.output_heads(), sizes.queries, head_dim}, query.options());
  const at::Tensor keys = at::zeros({sizes.batch, sizes.output_heads(), sizes.keys, head_dim}, query.options());
  const at::Tensor identity =
      at::eye(sizes.keys, query.options()).expand({sizes.batch, sizes.output_heads(), sizes.keys, sizes.keys});
  const at::Tensor none = at::zeros({sizes.output_heads(), 0}, query.options().dtype(at::kDouble));
  const at::Tensor kept = std::get<0>(pairwise(nothing, keys, identity, none, "uniform", only)) > at::Scalar(0);
  return for_sub_heads(kept.to(query.scalar_type()) * at::Scalar(1 / (1 - options.dropout)), sizes.sub_heads);
}

// exp(−(j − center)²/(2σ²)), [B, Hq, N, M].
at::Tensor gaussian(const Sizes& sizes, const at::Tensor& centers, const PairwiseOptions& options) {
  const at::Tensor distance =
      positions(sizes.keys, centers).to(centers.scalar_type()) - for_sub_heads(centers, sizes.sub_heads).unsqueeze(-1);
  return (distance * distance * at::Scalar(-0.5 / (options.sigma * options.sigma))).exp();
}

}  // namespace

std::vector<at::Tensor> pairwise_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const PairwiseOptions& options) {
  std::vector<at::Tensor> inputs{query, key, value, parameters};
  for (const auto tensor : place::option_tensors) inputs.push_back((options.*tensor).value_or(at::Tensor()));
  return inputs;
}

at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options, bool wide) {
  const at::ScalarType given = inputs[place::query].scalar_type(), computed = computed_type(inputs[place::query]);
  std::vector<at::Tensor> in = inputs;
  for (std::size_t i : {place::query, place::key, place::value}) in[i] = in[i].to(computed);
  const at::Tensor& query = in[place::query];
  const Sizes sizes{query.size(0), query.size(1), options.sub_heads, query.size(2), in[place::key].size(2)};
  const bool has_energy = find_mechanism(mechanism).pairwise()->has_energy;

  at::Tensor visible = visible_to_heads(sizes, query, options), bias, energy_bias;
  const auto read = [&](place::Place which, at::Tensor& to) {
    if (!in[which].defined()) return;
    to = whole(in[which], sizes);
    visible = visible.logical_and(is_not_hidden(to));
  };
  read(place::bias, bias);
  read(place::energy_bias, energy_bias);
  // What is hidden takes part with a score of 0 and a weight of 0, and what nobody sees as a key and a value of 0:
  // 0·NaN would be NaN, in derivatives too.
  const at::Tensor zero = at::zeros({}, query.options());
  const at::Tensor count = visible.sum(at::IntArrayRef{-1}, true).to(computed);         // [B or 1, Hq or 1, N, 1]
  const at::Tensor sees = count > at::Scalar(0), seen = visible.any(-2).unsqueeze(-1);  // [B or 1, Hq or 1, M, 1]
  const at::Tensor key = at::where(seen, for_query_heads(in[place::key], sizes.heads, sizes.sub_heads), zero);

  at::Tensor score = scores(at::where(sees, query, zero), key, in[place::score_weight], options.scale), exponent;
  const auto add = [&](at::Tensor& to, const at::Tensor& more) {
    if (more.defined()) to = to.defined() ? to + more : more;
  };
  if (options.alibi) add(has_energy ? exponent : score, decay(sizes, query, options));
  add(score, bias);
  add(exponent, energy_bias);
  score = at::where(visible, score, zero);
  const at::Tensor row_shift = at::where(sees, shift.detach().unsqueeze(-1), zero);  // [B, Hq, N, 1]
  const at::Tensor key_shift = exponent.defined() ? row_shift - at::where(visible, exponent, zero) : row_shift;

  const at::Tensor of_scores = row_map(score, key_shift, count, in[place::parameters], mechanism, "terms");
  at::Tensor weight = at::where(visible, of_scores.select(0, 0), zero);
  const at::Tensor mass =
      at::where(visible, of_scores.select(0, 1), zero).sum(at::IntArrayRef{-1}, true);  // [B, Hq, N, 1]
  const at::Tensor total = row_map(mass, row_shift, count, in[place::parameters], mechanism, "normalizer").select(0, 0);
  if (in[place::centers].defined()) weight = weight * gaussian(sizes, in[place::centers], options);
  if (options.dropout > 0) weight = weight * drawn(sizes, query, options);
  weight = weight / at::where(sees, total, at::ones({}, query.options()));

  const std::int64_t value_heads = in[place::value].size(1);
  at::Tensor value = in[place::value];
  if (value_heads != sizes.heads) value = value.repeat_interleave(sizes.heads / value_heads, 1);
  const at::Tensor output = product(weight, at::where(seen, value, zero));
  return wide ? output : output.to(given);
}

}  // namespace cogwheel
