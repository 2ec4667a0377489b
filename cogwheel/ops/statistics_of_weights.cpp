#include "cogwheel/ops/statistics_of_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros_like.h>

#include "cogwheel/kernels/pairwise/row_statistics.h"

namespace cogwheel {

at::Tensor statistics_of_weights(const at::Tensor& weights) {
  const std::int64_t over_keys[] = {-1};
  const at::Tensor sizes = weights.abs(), abs_sum = sizes.sum(over_keys), sum = weights.sum(over_keys);
  const at::Tensor negative = (-weights).clamp_min(0).sum(over_keys);
  const at::Tensor nothing = abs_sum == 0, none = at::full_like(abs_sum, -1);
  const at::Tensor zero = at::zeros_like(abs_sum);
  const at::Tensor entropy = at::where(nothing, zero, abs_sum.log() - at::xlogy(sizes, sizes).sum(over_keys) / abs_sum);
  if (weights.sym_size(-1) == 0) return at::stack({abs_sum.log(), sum, abs_sum, negative, entropy, zero, zero, none});
  return at::stack({abs_sum.log(), sum, abs_sum, negative, entropy, weights.select(-1, 0), sizes.amax(over_keys),
                    at::where(nothing, none, at::argmax(sizes, -1).to(weights.scalar_type()))});
}

}  // namespace cogwheel
