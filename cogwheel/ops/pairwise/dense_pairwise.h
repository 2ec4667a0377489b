// Pairwise attention as a composition of ATen's operators around cogwheel::row_map, for what fused kernels cannot
// compute: second derivatives and tangents of all queries at once, and devices without an engine, in blocks of queries
// (pairwise_composed.cpp). It holds the scores, weights and their derivatives of all its queries: O(queries · keys) for
// each head, times (1 + P)² for second derivatives, where P is the number of the map's scalars; an additive score also
// holds queries · keys · head_dim. Non-finite values that no query sees have no effect; those that some see reach the
// derivatives of all, unless products are made pair by pair.
#pragma once
#include <torch/csrc/autograd/variable.h>

#include <iterator>
#include <optional>
#include <vector>

#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/visibility_mask.h"

namespace cogwheel::ops {

// Every tensor that cogwheel::pairwise reads: its four, then those of the options. Gradients and tangents come from
// those before `differentiable`.
namespace pairwise_input {
enum Place : std::size_t {
  query,
  key,
  value,
  parameters,
  options,
  before_options = options - 1,
#define PAIRWISE_DIFFERENTIABLE(name, extent) name,
#include "cogwheel/ops/pairwise/pairwise_options.def"
  differentiable,
  before_others = differentiable - 1,
#define PAIRWISE_TENSOR(name) name,
#include "cogwheel/ops/pairwise/pairwise_options.def"
  count
};

// In the order of the places.
inline constexpr std::optional<at::Tensor> PairwiseOptions::*option_tensors[] = {
#define PAIRWISE_DIFFERENTIABLE(name, extent) &PairwiseOptions::name,
#include "cogwheel/ops/pairwise/pairwise_options.def"
#define PAIRWISE_TENSOR(name) &PairwiseOptions::name,
#include "cogwheel/ops/pairwise/pairwise_options.def"
};
static_assert(std::size(option_tensors) == count - options);

// Whether a differentiable option needs a gradient, in the order of the places.
inline constexpr bool WantedGradients::*wanted[] = {
#define PAIRWISE_DIFFERENTIABLE(name, extent) &WantedGradients::name,
#include "cogwheel/ops/pairwise/pairwise_options.def"
};
}  // namespace pairwise_input

// Undefined if there is none.
std::vector<at::Tensor> pairwise_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const PairwiseOptions& options);

// Which queries of a call are composed, and how.
struct DenseQueries {
  // Unless given, the inputs have all queries.
  std::optional<QueryRows> rows = {};
  // Products pair by pair, from visible keys alone, in queries · keys · width numbers: non-finite values then reach
  // only the rows that see them, and of these only the gradients of keys that they see.
  bool pair_by_pair = false;
};

// The weights of some queries, each [B, Hq, N, M].
struct DenseWeights {
  at::Tensor factors;  // w of the contract: dropout and a Gaussian window; undefined where there is none
  at::Tensor terms;    // w f, 0 where hidden
  at::Tensor mass;     // G [B, Hq, N, 1]
  at::Tensor weights;  // w f / N
};

// One composition: the steps from inputs to the output, each differentiable.
class DensePairwise {
 public:
  // With these inputs in place of those in the options.
  DensePairwise(const std::vector<at::Tensor>& inputs, std::string_view mechanism, const PairwiseOptions& options,
                const DenseQueries& queries = {});

  // [B or 1, Hq or 1, N, M], true where the query sees the key.
  const at::Tensor& visible() const { return visible_; }
  // How many keys each query sees, broadcasts to [B, output heads, N].
  at::Tensor keys(std::int64_t sub_heads = 1) const {
    return count_.squeeze(-1).slice(1, 0, c10::nullopt, count_.size(1) > 1 ? sub_heads : 1);
  }

  // [B, Hq, N, M], −∞ where hidden.
  at::Tensor scores() const;

  // The row maximum of the exponents, [B, Hq, N], as forward saves it for backward; without a derivative.
  at::Tensor shift() const;

  // The shift cancels, whatever its value; it keeps exponents small.
  DenseWeights weigh(const at::Tensor& shift) const;

  // 1/n over the n keys that the query sees, 0 where hidden.
  at::Tensor uniform_weights() const;

  // In the compute dtype.
  at::Tensor output(const at::Tensor& weights) const;

 private:
  at::Tensor masked(const at::Tensor& of_pairs) const;

  std::vector<at::Tensor> in_;
  std::string_view mechanism_;
  const PairwiseOptions& options_;
  QueryRows rows_;
  bool pair_by_pair_;
  std::int64_t heads_;
  at::Tensor zero_;
  at::Tensor visible_;
  at::Tensor count_, sees_;      // of the keys that the query sees, and whether there are any: [B or 1, Hq or 1, N, 1]
  at::Tensor seen_;              // by any query: [B or 1, Hq or 1, M, 1]
  at::Tensor score_, exponent_;  // 0 where hidden; the exponent undefined where nothing adds to it
};

// The output of cogwheel::pairwise, `wide` or in the type of the query, of these inputs in place of those in the
// options. `shift` is the row maximum that the kernel found, [B, Hq, N].
at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options, bool wide = false);

}  // namespace cogwheel::ops
