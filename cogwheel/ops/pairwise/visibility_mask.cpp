#include "cogwheel/ops/pairwise/visibility_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <limits>

namespace cogwheel::ops {

at::Tensor positions(const c10::SymInt& count, const at::Tensor& like) {
  return at::arange(at::Scalar(count), like.options().dtype(at::kLong));
}

at::Tensor standing(const QueryRows& queries, const c10::SymInt& diagonal, const at::Tensor& like,
                    const PairwiseOptions& options) {
  const at::Tensor row = positions(queries.count, like).view_symint({1, 1, queries.count, 1});
  if (!options.first_positions) return row + at::Scalar(queries.first + diagonal);
  return row + at::Scalar(queries.first) + options.first_positions->view({-1, 1, 1, 1});
}

at::Tensor visibility_mask(const QueryRows& queries, const c10::SymInt& keys, const at::Tensor& like,
                           const PairwiseOptions& options) {
  const at::Tensor key = positions(keys, like).view_symint({1, 1, 1, keys});
  if (options.ranges) {
    const at::Tensor ranges = options.ranges->unsqueeze(-1);  // [b, h, N, 2, 1]
    return (key >= ranges.select(3, 0)).logical_and(key < ranges.select(3, 1));
  }
  at::Tensor visible;
  const auto narrow = [&](const at::Tensor& to) { visible = visible.defined() ? visible.logical_and(to) : to; };
  if (options.mask != mask::full) {
    const at::Tensor last =
        standing(queries, options.mask == mask::causal ? keys - queries.all : c10::SymInt(0), like, options);
    narrow(key <= last);
    if (options.window > 0) narrow(key > last - at::Scalar(options.window));
  }
  if (options.key_lengths) narrow(key < options.key_lengths->view({-1, 1, 1, 1}));
  return visible;
}

at::Tensor is_not_hidden(const at::Tensor& bias) {
  return bias != at::Scalar(-std::numeric_limits<double>::infinity());
}

}  // namespace cogwheel::ops
