// The weights that tokens of a recurrent layer give those before them, which hooks read and replace.
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/mixers/law_parameters.h"
#include "cogwheel/nn/mixers/recurrent_layer.h"
#include "cogwheel/nn/weights/derivative_path.h"
#include "cogwheel/ops/pairwise/statistics_of_weights.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::nn {
namespace {

// [1, H, n, n] each → [1, H, N, N], 0 beside them.
at::Tensor along_diagonal(const std::vector<at::Tensor>& blocks) {
  std::int64_t tokens = 0;
  for (const at::Tensor& block : blocks) tokens += block.size(-1);
  std::vector<at::Tensor> rows;
  std::int64_t before = 0;
  for (const at::Tensor& block : blocks) {
    const std::int64_t own = block.size(-1);
    rows.push_back(at::constant_pad_nd(block, {before, tokens - before - own}));
    before += own;
  }
  return at::cat(rows, 2);
}

}  // namespace

// Of a law whose columns decay apart, which have weights of their own, their mean.
at::Tensor RecurrentLayerImpl::weights(const Heads& heads) const {
  const ops::RecurrentOptions options = operator_options(heads);
  const std::int64_t tokens = heads.value.size(2);
  if (!law_.has_query) {  // the same for every entry: what a token leaves at those after it
    const at::Tensor units = at::eye(tokens, heads.value.options()).view({tokens, 1, tokens, 1});
    const at::Tensor left = std::get<0>(
        ops::recurrent({}, {}, units.expand({tokens, options_.heads, tokens, value_dim_}), law_.name, options));
    return left.mean(-1).permute({1, 2, 0}).expand({heads.value.size(0), options_.heads, tokens, tokens});
  }
  const bool apart = std::any_of(law_.parameters.begin(), law_.parameters.end(),
                                 [](const RecurrentParameter& parameter) { return parameter.axes == "BHNV"; });
  if (!apart) return ops::recurrent_weights(heads.query, heads.given_key(), law_.name, options);
  // Entry by entry, for they are many.
  std::vector<at::Tensor> entries;
  const auto key = heads.given_key();
  for (std::int64_t entry = 0; entry < heads.query.size(0); ++entry) {
    ops::RecurrentOptions of_entry = options;
    for (auto& [name, tensor] : of_entry.parameters)
      if (tensor.dim() == 4) tensor = tensor.narrow(0, entry, 1);  // others are of all entries
    const at::Tensor weights =
        ops::recurrent_weights(heads.query.narrow(0, entry, 1),
                               key ? std::optional(key->narrow(0, entry, 1)) : std::nullopt, law_.name, of_entry);
    entries.push_back(weights.dim() == 5 ? weights.mean(2) : weights);  // the parameter may be one that is not made
  }
  return at::cat(entries);
}

// Of packed sequences the heads of each, without those that are empty.
std::vector<RecurrentLayerImpl::Heads> RecurrentLayerImpl::sequences_of(
    const Heads& heads, const std::optional<at::Tensor>& cu_seqlens) const {
  if (!cu_seqlens) return {heads};
  std::vector<Heads> sequences;
  const at::Tensor ends = cu_seqlens->to(at::kCPU, at::kLong).contiguous();
  const auto* const end = ends.const_data_ptr<std::int64_t>();
  for (std::int64_t sequence = 0; sequence + 1 < ends.numel(); ++sequence) {
    const std::int64_t first = end[sequence], tokens = end[sequence + 1] - first;
    if (tokens == 0) continue;
    const auto part = [&](const at::Tensor& of_all) {
      return of_all.defined() ? of_all.narrow(2, first, tokens) : of_all;
    };
    Heads of_one = heads;
    of_one.query = part(heads.query), of_one.key = part(heads.key), of_one.value = part(heads.value);
    for (auto& [name, tensor] : of_one.parameters)
      if (of_tokens(parameter_of(law_, name))) tensor = part(tensor);
    sequences.push_back(std::move(of_one));
  }
  return sequences;
}

at::Tensor RecurrentLayerImpl::weights_or_nan(const Heads& heads) const {
  try {
    return weights(heads);
  } catch (const c10::ValueError&) {  // as in walk (recurrent_layer.cpp)
    if (!refuses(law_, heads.parameters)) throw;
    const at::Tensor& value = heads.value;
    return at::full({value.size(0), options_.heads, value.size(2), value.size(2)},
                    std::numeric_limits<double>::quiet_NaN(), value.options());
  }
}

// The output, where it and not only the weights or their statistics are wanted: weights that were replaced meet the
// values.
at::Tensor RecurrentLayerImpl::observed(const Heads& heads, const at::Tensor& output,
                                        const ForwardContext& context) const {
  const bool weights_wanted = context.wants(HookPlace::pattern), rows_wanted = context.wants(HookPlace::row_statistics);
  if (!weights_wanted && !rows_wanted) return output;
  if (context.layer_state != nullptr && context.layer_state->longest() > heads.value.size(2))
    throw UsageError(expected_got("attn.hook_pattern of " + options_.mechanism, "a pass from the first token",
                                  "a state, which has not kept the keys"));
  const std::vector<Heads> sequences = sequences_of(heads, context.cu_seqlens);
  std::vector<at::Tensor> weights, statistics;
  for (const Heads& sequence : sequences) {
    weights.push_back(weights_or_nan(sequence));
    if (!rows_wanted) continue;
    const at::Tensor wide = weights.back().to(ops::computed_type(weights.back()));
    statistics.push_back(
        ops::statistics_of_weights(wide, ops::keys_seen(wide.size(-1), wide.size(-1), true, {}, wide)));
  }
  if (rows_wanted)
    context.hooked(HookPlace::row_statistics, at::cat(statistics, -1).narrow(0, 0, RowStatistics<double>::argmax_at));
  const at::Tensor made = weights.size() == 1 ? weights.front() : along_diagonal(weights);
  if (!weights_wanted) return output;
  const at::Tensor pattern = context.hooked(HookPlace::pattern, made).tril();
  if (context.changed(HookPlace::pattern, made, pattern)) return pattern.matmul(heads.value);
  // Where a gate has diverged there is nothing to differentiate for.
  if (!has_derivatives(pattern) || made.isnan().any().item<bool>()) return output;
  return output + (pattern - made).matmul(heads.value);
}

}  // namespace cogwheel::nn
