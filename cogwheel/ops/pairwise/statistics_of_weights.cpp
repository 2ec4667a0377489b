#include "cogwheel/ops/pairwise/statistics_of_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"

namespace cogwheel::ops {
namespace {

// Over `keys` of each row: weights that are 0 count as far as the query sees their keys.
at::Tensor kurtosis(const at::Tensor& weights, const at::Tensor& mean, const at::Tensor& keys,
                    const at::Tensor& largest) {
  const std::int64_t over_keys[] = {-1};
  const at::Tensor used = weights != 0, without = keys - used.sum(over_keys);
  const at::Tensor unit = at::where(largest > 0, largest, at::ones_like(largest)), of_none = (mean / unit).square();
  const at::Tensor away = at::where(used, (weights - mean.unsqueeze(-1)) / unit.unsqueeze(-1), at::zeros_like(weights));
  const at::Tensor squares = away.square();
  const at::Tensor variance = (squares.sum(over_keys) + without * of_none) / keys,
                   fourth = (squares.square().sum(over_keys) + without * of_none.square()) / keys;
  const double rounding = 8 * (weights.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                    : std::numeric_limits<float>::epsilon());
  return at::where(variance > rounding * rounding, fourth / variance.square(),
                   at::full_like(variance, std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace

at::Tensor keys_seen(const c10::SymInt& queries, const c10::SymInt& keys, bool causal, const at::Tensor& lengths,
                     const at::Tensor& like) {
  at::Tensor seen = at::full_symint({queries}, at::Scalar(keys), like.options());
  if (causal) seen = (at::arange(at::Scalar(queries), like.options()) + at::Scalar(keys - queries + 1)).clamp_min(0);
  return lengths.defined() ? at::minimum(seen, lengths.to(like.options()).view({-1, 1, 1})) : seen;
}

at::Tensor statistics_of_weights(const at::Tensor& weights, const at::Tensor& seen) {
  const std::int64_t over_keys[] = {-1};
  const at::Tensor sizes = weights.abs(), abs_sum = sizes.sum(over_keys), sum = weights.sum(over_keys);
  const at::Tensor negative = (-weights).clamp_min(0).sum(over_keys);
  const at::Tensor nothing = abs_sum == 0, none = at::full_like(abs_sum, -1);
  const at::Tensor zero = at::zeros_like(abs_sum);
  const at::Tensor entropy = at::where(nothing, zero, abs_sum.log() - at::xlogy(sizes, sizes).sum(over_keys) / abs_sum);
  const at::Tensor keys = seen.to(weights.options()).expand_as(abs_sum), some_keys = keys.clamp_min(1);
  if (weights.sym_size(-1) == 0)
    return at::stack({abs_sum.log(), sum, abs_sum, negative, entropy, zero, zero, keys, zero, zero,
                      at::full_like(abs_sum, std::numeric_limits<double>::quiet_NaN()), none});
  const at::Tensor largest = sizes.amax(over_keys);
  const auto share = [&](const at::Tensor& counted) { return counted.sum(over_keys) / some_keys; };
  return at::stack({abs_sum.log(), sum, abs_sum, negative, entropy, weights.select(-1, 0), largest, keys,
                    share(weights > 0), share(weights < 0), kurtosis(weights, sum / some_keys, keys, largest),
                    at::where(nothing, none, at::argmax(sizes, -1).to(weights.scalar_type()))});
}

}  // namespace cogwheel::ops
