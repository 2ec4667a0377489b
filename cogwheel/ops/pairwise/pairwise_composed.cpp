// The dense composition (dense_pairwise.h) in blocks of queries, whose scores backward recomputes, so that memory is
// O(block · keys). Slower than kernels, which keep what is made of a score in registers: here each step of a row map
// (row_map.h) reads and writes all scores of a block.
//
// The host reads once per call whether all numbers are finite. Lengths, positions and dropout's seed stay on the
// device.
#include "cogwheel/ops/pairwise/pairwise_composed.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cogwheel/ops/pairwise/dense_pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/seen_keys.h"
#include "cogwheel/ops/pairwise/statistics_of_weights.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/recorded_node.h"
#include "cogwheel/ops/support/shared_heads.h"

namespace cogwheel::ops {
namespace {

namespace place = pairwise_input;

// The size limit of one tensor of a block, such as its scores, and the minimum and maximum of its queries.
constexpr std::int64_t max_numbers = std::int64_t{1} << 22, min_queries = 16, max_queries = 256;

bool all_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

// Options whose tensors have a row for each query, or one for all: which dimension, from the last, has the rows.
struct RowsOfOption {
  std::optional<at::Tensor> PairwiseOptions::*tensor;
  std::int64_t dimension;
};
namespace rows_of {
constexpr std::int64_t pairs = -2, queries = -1, widths = 0;  // 0: none has
}
constexpr RowsOfOption rows_of_options[] = {
    {&PairwiseOptions::ranges, -2},
#define PAIRWISE_DIFFERENTIABLE(name, extent) {&PairwiseOptions::name, rows_of::extent},
#include "cogwheel/ops/pairwise/pairwise_options.def"
};

// With 0 for values that are not finite.
at::Tensor only_finite(const at::Tensor& tensor) {
  return at::where(at::isfinite(tensor), tensor, at::zeros({}, tensor.options()));
}

// Some queries of a call, with all their inputs.
struct Block {
  std::int64_t first, count;
  DenseQueries queries;
  PairwiseOptions options;  // of these queries
  at::Tensor query, key, value;
  // [B, H, N] of the heads of the output, true where the rows of this block count; undefined where all do.
  at::Tensor kept = {};

  // Of a tensor that has a row for each query in this dimension.
  at::Tensor of(const at::Tensor& tensor, std::int64_t dimension) const {
    return tensor.narrow(dimension, first, count);
  }

  // `rows` where they count and `otherwise` where not; batch, heads and queries are dimensions of `rows` up to
  // `rows_at`.
  at::Tensor only_kept(const at::Tensor& rows, const at::Tensor& otherwise, std::int64_t rows_at) const {
    if (!kept.defined()) return rows;
    at::Tensor counts = kept.repeat_interleave(rows.size(rows_at - 1) / kept.size(1), 1);
    for (std::int64_t after = rows_at + 1; after < rows.dim(); ++after) counts = counts.unsqueeze(-1);
    return at::where(counts, rows, otherwise);
  }

  // Writes the rows that count into those of all queries.
  void write(const at::Tensor& to, std::int64_t rows_at, const at::Tensor& rows) const {
    const at::Tensor place = of(to, rows_at);
    place.copy_(only_kept(rows.to(place.scalar_type()), place, rows_at));
  }
};

// One call, split into blocks.
//
// Because 0·NaN is NaN, ordinary products would carry non-finite values to rows that do not see them. So the rows that
// do see any are computed a second time, pair by pair, and count in that second block only; the others count in the
// first, which reads 0 for non-finite values, and keep their bits.
class Blocks {
 public:
  // `more` has a row [B, Hq, N, width] for each query, as the gradient of the output has, or is undefined.
  Blocks(const PairwiseCall& call, const at::Tensor& more)
      : query_(call.query.to(computed_type(call.query))),
        key_(call.key.to(computed_type(call.query))),
        value_(call.value.to(computed_type(call.query))),
        more_(more),
        parameters_(call.parameters),
        mechanism_(call.mechanism),
        options_(call.options),
        finite_(all_finite(call.query) && (!more.defined() || all_finite(more))) {
    take_seen(key_, options_.sub_heads);
    take_seen(value_, 1);
  }

  // Calls visit(block) for each, in their order.
  template <class Visit>
  void each(const Visit& visit) const {
    const std::int64_t queries = query_.size(2);
    const std::int64_t at_once = queries_at_once(options_.score_weight ? key_.size(3) : 1);
    for (std::int64_t first = 0; first < queries; first += at_once) {
      Block block = block_of(first, std::min(at_once, queries - first));
      if (!finite_) {
        const at::Tensor met = meets_non_finite(block);
        for (at::Tensor* each : {&block.query, &block.key, &block.value}) *each = only_finite(*each);
        if (met.any().item<bool>()) {
          block.kept = met.logical_not();
          again_by_pairs(block, met, visit);
        }
      }
      visit(block);
    }
  }

  // Whether the option has a row for each query, rather than one for all.
  bool has_rows(const RowsOfOption& option) const {
    const auto& tensor = options_.*option.tensor;
    return option.dimension < 0 && tensor && tensor->dim() >= -option.dimension && tensor->size(option.dimension) > 1;
  }

  std::vector<at::Tensor> inputs(const Block& block) const {
    return pairwise_inputs(block.query, block.key, block.value, parameters_, block.options);
  }

  DensePairwise compose(const Block& block) const {
    return DensePairwise(inputs(block), mechanism_, block.options, block.queries);
  }

 private:
  // Keys or values; unless all are finite, with 0 for those that no query sees, such as padding.
  void take_seen(at::Tensor& keys, std::int64_t sub_heads) {
    if (all_finite(keys)) return;
    PairwiseOptions options = options_;
    options.sub_heads = sub_heads;
    keys = without_unseen(keys, query_.sym_size(2), options);
    finite_ = finite_ && all_finite(keys);
  }

  // So that tensors of `of_pair` numbers for each query and key stay small.
  std::int64_t queries_at_once(std::int64_t of_pair) const {
    const std::int64_t of_query = std::max<std::int64_t>(query_.size(0) * query_.size(1) * key_.size(2) * of_pair, 1);
    return std::clamp(max_numbers / of_query, of_pair == 1 ? min_queries : 1, max_queries);
  }

  Block block_of(std::int64_t first, std::int64_t count) const {
    Block block{first, count, {QueryRows(first, count, query_.size(2))}, options_, query_.narrow(2, first, count),
                key_,  value_};
    for (const RowsOfOption& each : rows_of_options)
      if (has_rows(each)) block.options.*each.tensor = block.of(*(options_.*each.tensor), each.dimension);
    return block;
  }

  // [B, H, N]: whether the row, in any sub-head, has or sees a value that is not finite.
  at::Tensor meets_non_finite(const Block& block) const {
    const auto bad = [](const at::Tensor& tensor) { return at::isfinite(tensor).all(-1, true).logical_not(); };
    const std::int64_t heads = query_.size(1), sub_heads = options_.sub_heads;
    const at::Tensor of_values = for_query_heads(bad(value_), heads / sub_heads).repeat_interleave(sub_heads, 1);
    const at::Tensor of_keys = for_query_heads(bad(key_), heads, sub_heads).logical_or(of_values);  // [B, Hq, M, 1]
    at::Tensor met = compose(block).visible().logical_and(of_keys.mT()).any(-1, true).logical_or(bad(block.query));
    if (more_.defined()) met = met.logical_or(bad(block.of(more_, 2)));
    return met.squeeze(-1).unflatten(1, {heads / sub_heads, sub_heads}).any(2);
  }

  // Only the queries of a block that have or see non-finite values, few at a time because of the pairs' width.
  template <class Visit>
  void again_by_pairs(const Block& block, const at::Tensor& met, const Visit& visit) const {
    const std::int64_t at_once = queries_at_once(std::max(key_.size(3), value_.size(3)));
    for (std::int64_t first = 0; first < block.count; first += at_once) {
      Block pairs = block_of(block.first + first, std::min(at_once, block.count - first));
      pairs.kept = met.narrow(2, first, pairs.count);
      pairs.queries.pair_by_pair = true;
      if (pairs.kept.any().item<bool>()) visit(pairs);
    }
  }

  at::Tensor query_, key_, value_, more_, parameters_;
  std::string_view mechanism_;
  const PairwiseOptions& options_;
  bool finite_;
};

// Lets autograd record within a kernel, which the dispatcher calls below autograd.
class RecordingWithin {
  static c10::DispatchKeySet excluded() {
    return c10::impl::tls_local_dispatch_key_set().excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  }

  c10::InferenceMode ordinary_{false};
  c10::impl::ForceDispatchKeyGuard guard_{
      c10::impl::tls_local_dispatch_key_set().included_ - c10::autocast_dispatch_keyset, excluded()};
  at::AutoGradMode not_recorded_itself_{false};  // gradients have no gradients here
};

// The gradient of one input, to which each block adds.
struct Gathered {
  at::Tensor sum;
  std::int64_t dimension = 0;  // where each query has its own row, else 0

  void add(const Block& block, const at::Tensor& part) const {
    if (part.defined()) (dimension == 0 ? sum : block.of(sum, dimension)).add_(part);
  }
};

}  // namespace

void compose_pairwise(const PairwiseCall& call, const WantedOutputs& wanted, const PairwiseResults& results) {
  const Blocks blocks(call, {});
  blocks.each([&](const Block& block) {
    const DensePairwise composition = blocks.compose(block);
    const at::Tensor row_shift = composition.shift();
    const DenseWeights weighed = composition.weigh(row_shift);
    block.write(results.output, 2, composition.output(weighed.weights));
    block.write(results.shift, 2, row_shift);
    block.write(results.mass, 2, weighed.mass.squeeze(-1));
    if (!wanted.statistics) return;
    const at::Tensor rows = statistics_of_weights(weighed.weights, composition.keys());
    const at::Tensor log_mass = weighed.terms.abs().sum(at::IntArrayRef{-1}).log() + row_shift;
    block.write(results.statistics, 3, at::cat({log_mass.unsqueeze(0), rows.narrow(0, 1, rows.size(0) - 1)}));
  });
}

PairwiseGradients compose_pairwise_backward(const PairwiseCall& call, const at::Tensor& gradient,
                                            const at::Tensor& shift, const WantedGradients& wanted) {
  std::array<Gathered, place::differentiable> gathered;
  for (const auto& [at, of] :
       {std::pair(place::query, &call.query), {place::key, &call.key}, {place::value, &call.value}})
    gathered[at].sum = at::zeros(of->sizes(), computed_options(call.query));
  gathered[place::query].dimension = 2;
  gathered[place::parameters].sum = at::zeros(call.parameters.sizes(), call.parameters.options());
  for (std::size_t i = place::options; i < place::differentiable; ++i)
    gathered[i].sum = empty_modifier_gradient(wanted.*place::wanted[i - place::options],
                                              call.options.*place::option_tensors[i - place::options], call.query)
                          .zero_();

  const Blocks blocks(call, gradient);
  for (std::size_t i = place::options; i < place::differentiable; ++i)
    for (const RowsOfOption& each : rows_of_options)
      if (each.tensor == place::option_tensors[i - place::options] && blocks.has_rows(each))
        gathered[i].dimension = each.dimension;
  const at::Tensor wide_gradient = gradient.to(computed_type(call.query)),
                   zero = at::zeros({}, wide_gradient.options());
  blocks.each([&](const Block& block) {
    const at::Tensor of_rows = block.only_kept(block.of(wide_gradient, 2), zero, 2);
    variable_list parts;
    {
      const RecordingWithin recording;
      const variable_list given = blocks.inputs(block);
      variable_list leaves = given;
      for (std::size_t i = 0; i < place::differentiable; ++i) {
        if (!leaves[i].defined() || leaves[i].numel() == 0) continue;
        leaves[i] = leaves[i].is_inference() ? leaves[i].clone() : leaves[i].detach();
        leaves[i].set_requires_grad(i < place::options || wanted.*place::wanted[i - place::options]);
      }
      parts = gradients_through(
          [&](const variable_list& in) {
            const DensePairwise composition(in, call.mechanism, block.options, block.queries);
            return variable_list{composition.output(composition.weigh(block.of(shift, 2)).weights)};
          },
          leaves, {of_rows});
    }
    for (std::size_t i = 0; i < place::differentiable; ++i) gathered[i].add(block, parts[i]);
  });
  for (const auto& [at, of] :
       {std::pair(place::query, &call.query), {place::key, &call.key}, {place::value, &call.value}})
    gathered[at].sum = gathered[at].sum.to(of->scalar_type());
  return [&]<std::size_t... index>(std::index_sequence<index...>) { return PairwiseGradients{gathered[index].sum...}; }
  (std::make_index_sequence<place::differentiable>());
}

void compose_mixture_statistics(const PairwiseCall& call, const MixtureMembers& members, const at::Tensor& statistics) {
  const std::int64_t sub_heads = call.options.sub_heads, heads = call.query.size(1) / sub_heads;
  const Blocks blocks(call, {});
  blocks.each([&](const Block& block) {
    const DensePairwise composition = blocks.compose(block);
    const DenseWeights weighed = composition.weigh(block.of(members.shift, 2));
    at::Tensor weights;
    if (members.coefficient) {
      const at::Tensor of_heads = weighed.weights.unflatten(1, {heads, sub_heads});
      const at::Tensor coefficient =
          block.of(members.coefficient->expand({call.query.size(0), heads, call.query.size(2)}), 2);
      weights = of_heads.select(2, 0) + coefficient.unsqueeze(-1) * of_heads.select(2, 1);
    } else {
      const at::Tensor mean = composition.uniform_weights();
      weights = weighed.weights - (weighed.factors.defined() ? mean * weighed.factors : mean);
    }
    block.write(statistics, 3, statistics_of_weights(weights, composition.keys(sub_heads)));
  });
}

}  // namespace cogwheel::ops
