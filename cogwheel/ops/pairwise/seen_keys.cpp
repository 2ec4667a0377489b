#include "cogwheel/ops/pairwise/seen_keys.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "cogwheel/ops/pairwise/visibility_mask.h"

namespace cogwheel::ops {
namespace {

at::Tensor both(const at::Tensor& one, const at::Tensor& other) {
  if (!one.defined()) return other;
  return other.defined() ? one.logical_and(other) : one;
}

// By the table, [b, h, M]: how many ranges begin up to a key and do not end there.
at::Tensor seen_in(const at::Tensor& ranges, const c10::SymInt& keys) {
  const at::Tensor begin = ranges.select(-1, 0), end = ranges.select(-1, 1), one = at::ones_like(begin);
  const at::Tensor none = at::zeros_symint({ranges.sym_size(0), ranges.sym_size(1), keys + 1}, ranges.options());
  const at::Tensor changes = none.scatter_add(2, begin, one).scatter_add(2, end, -one);
  return changes.cumsum(2).slice_symint(2, 0, keys) > 0;
}

// By the rule, [B or 1, 1, M]: from the first key of the first query to the last key of the last one. Undefined: all.
at::Tensor seen_by_rule(const c10::SymInt& queries, const c10::SymInt& keys, const at::Tensor& like,
                        const PairwiseOptions& options) {
  const bool all = options.mask == mask::full || (options.mask == mask::causal && options.window == 0);
  if (all && !options.key_lengths && !options.first_positions) return {};
  const at::Tensor place = positions(keys, like);
  const auto of_entries = [](const at::Tensor& numbers) { return numbers.view({-1, 1, 1}); };
  at::Tensor seen;
  if (options.key_lengths) seen = place < of_entries(*options.key_lengths);
  if (options.mask == mask::full) return seen;
  if (options.first_positions) {
    const at::Tensor first = of_entries(*options.first_positions);
    seen = both(seen, place < first + at::Scalar(queries));
    if (options.window > 0) seen = both(seen, place > first - at::Scalar(options.window));
    return seen;
  }
  const c10::SymInt diagonal = options.mask == mask::causal ? keys - queries : c10::SymInt(0);
  if (options.mask != mask::causal) seen = both(seen, place < at::Scalar(queries));
  if (options.window > 0) seen = both(seen, place > at::Scalar(diagonal - options.window));
  return seen.defined() && seen.dim() == 1 ? seen.view_symint({1, 1, keys}) : seen;
}

// [b, h, N or 1, M or 1]
at::Tensor open_past(const at::Tensor& bias) {
  at::Tensor open = is_not_hidden(bias);
  while (open.dim() < 4) open = open.unsqueeze(0);
  return open;
}

bool differs_by_row(const std::optional<at::Tensor>& bias) {
  return bias && bias->dim() > 1 && bias->sym_size(-2) != 1;
}

}  // namespace

at::Tensor without_unseen(const at::Tensor& key, const c10::SymInt& queries, const PairwiseOptions& options) {
  const c10::SymInt keys = key.sym_size(2), heads = key.sym_size(1);
  // A bias with a row for each query may hide a key from exactly the queries that see it otherwise, so each
  // query counts by itself.
  const bool by_query = differs_by_row(options.bias) || differs_by_row(options.energy_bias);
  at::Tensor seen = by_query         ? visibility_mask(queries, keys, key, options)
                    : options.ranges ? seen_in(*options.ranges, keys)
                                     : seen_by_rule(queries, keys, key, options);
  for (const auto* bias : {&options.bias, &options.energy_bias})
    if (*bias) seen = both(seen, by_query ? open_past(**bias) : open_past(**bias).any(-2));
  if (!seen.defined()) return key;
  if (by_query) seen = seen.any(-2);
  // Output heads that share a key, whose sub-heads are adjacent.
  if (seen.sym_size(1) != 1) {
    const c10::SymInt groups = heads / options.sub_heads;
    seen = seen.unflatten_symint(1, {groups, seen.sym_size(1) / groups}).any(2).repeat_interleave(options.sub_heads, 1);
  }
  return at::where(seen.unsqueeze(-1), key, at::zeros({}, key.options()));
}

}  // namespace cogwheel::ops
