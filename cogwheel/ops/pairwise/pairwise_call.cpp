#include "cogwheel/ops/pairwise/pairwise_call.h"

#include <ATen/ops/empty.h>

#include <string>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/ops/pairwise/ranges.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

void check_computed(std::string_view name, const OptionalTensor& tensor, const at::Tensor& query) {
  if (tensor && tensor->scalar_type() != computed_type(query))
    refuse(std::string(name) + " dtype", c10::toString(computed_type(query)), c10::toString(tensor->scalar_type()));
}

// As check_lengths; elsewhere ranges beyond the keys count as if they ended there.
void check_ranges(const at::Tensor& ranges, std::int64_t keys) {
  if (!ranges.is_cpu()) return;
  const at::Tensor numbers = ranges.contiguous();
  const auto* range = reinterpret_cast<const KeyRange*>(numbers.const_data_ptr<std::int64_t>());
  for (std::int64_t i = 0; i < numbers.numel() / 2; ++i)
    if (range[i].begin < 0 || range[i].begin > range[i].end || range[i].end > keys)
      refuse("ranges", "keys [begin, end) of " + std::to_string(keys),
             "[" + std::to_string(range[i].begin) + ", " + std::to_string(range[i].end) + ")");
}

// An engine clamps their values, but assumes one for each batch entry, and adds to them.
void check_positions(const at::Tensor& positions, std::int64_t batch) {
  if (positions.scalar_type() != at::kLong || positions.dim() != 1 || positions.size(0) != batch)
    refuse("first_positions", "int64 [" + std::to_string(batch) + "]",
           c10::toString(positions.scalar_type()) + (" " + shape_text(positions)));
  if (!positions.is_cpu()) return;
  const at::Tensor numbers = positions.contiguous();
  for (std::int64_t b = 0; b < batch; ++b)
    if (const std::int64_t first = numbers.const_data_ptr<std::int64_t>()[b];
        first < -farthest_position || first > farthest_position)
      refuse("first_positions", "numbers from -2^53 to 2^53", std::to_string(first));
}

void check_visibility(const at::Tensor& query, std::int64_t keys, const PairwiseOptions& options) {
  visibility_of(options.mask, query.size(2), keys);
  if (options.key_lengths) check_lengths(*options.key_lengths, keys);
  if (options.first_positions) check_positions(*options.first_positions, query.size(0));
  if (options.ranges) check_ranges(*options.ranges, keys);
}

}  // namespace

void check_options(const at::Tensor& query, const at::Tensor& key, const PairwiseOptions& options) {
  check_visibility(query, key.size(2), options);
  check_computed("bias", options.bias, query);
  check_computed("energy_bias", options.energy_bias, query);
  check_computed("centers", options.centers, query);
  check_computed("score_weight", options.score_weight, query);
  if (!options.score_weight) return;
  const at::Tensor& weight = *options.score_weight;
  if (weight.dim() != 2 || weight.size(0) != query.size(1) || weight.size(1) != query.size(3))
    refuse("score_weight", "[query heads, head_dim]", shape_text(weight));
}

void check_members(const MixtureMembers& members, const at::Tensor& query, std::int64_t sub_heads) {
  check_computed("shift", members.shift, query);
  check_computed("mass", members.mass, query);
  check_computed("coefficient", members.coefficient, query);
  const std::int64_t rows[] = {query.size(0), query.size(1), query.size(2)};
  for (const at::Tensor& totals : {members.shift, members.mass})
    if (totals.sizes() != at::IntArrayRef(rows)) refuse("shift and mass", "[B, query heads, N]", shape_text(totals));
  if (members.coefficient.has_value() != (sub_heads == 2))
    refuse("coefficient", sub_heads == 2 ? "a tensor" : "none, with one sub-head",
           sub_heads == 2 ? "none" : "a tensor");
}

void check_saved(const at::Tensor& gradient, const at::Tensor& query, const PairwiseSaved& saved) {
  check_like("gradient", gradient, query);
  check_like("output", saved.output, query);
  if (gradient.sizes() != saved.output.sizes())
    refuse("gradient", shape_text(saved.output) + " (as output)", shape_text(gradient));
  check_computed("shift", saved.shift, query);
  check_computed("mass", saved.mass, query);
}

at::TensorOptions computed_options(const at::Tensor& query) { return query.options().dtype(computed_type(query)); }

at::Tensor empty_output(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool wide) {
  const auto sizes = query.sym_sizes();
  const c10::SymInt width = are_identity(value) ? key.sym_size(2) : value.sym_size(3);
  const at::TensorOptions options = wide ? computed_options(query) : query.options();
  if (query.sym_stride(1) < query.sym_stride(2))
    return at::empty_symint({sizes[0], sizes[2], sizes[1], width}, options).transpose(1, 2);
  return at::empty_symint({sizes[0], sizes[1], sizes[2], width}, options);
}

at::Tensor empty_totals(const at::Tensor& query) {
  return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)}, computed_options(query));
}

at::Tensor empty_statistics(const at::Tensor& query, const c10::SymInt& heads, bool wanted) {
  if (!wanted) return at::empty({0}, computed_options(query));
  return at::empty_symint({RowStatistics<double>::count, query.sym_size(0), heads, query.sym_size(2)},
                          computed_options(query));
}

at::Tensor empty_modifier_gradient(bool wanted, const OptionalTensor& modifier, const at::Tensor& query) {
  return wanted ? at::empty_symint(modifier->sym_sizes(), computed_options(query))
                : at::empty({0}, computed_options(query));
}

Visibility visibility_of(std::string_view name, std::int64_t queries, std::int64_t keys) {
  if (name == mask::full) return {.keys = keys};
  if (name == mask::causal) return {.keys = keys, .causal = true, .diagonal = keys - queries};
  if (name == mask::causal_first) return {.keys = keys, .causal = true, .diagonal = 0};
  refuse("mask", "full, causal or causal_first", std::string(name));
}

}  // namespace cogwheel::ops
