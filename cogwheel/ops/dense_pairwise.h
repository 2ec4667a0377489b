// Pairwise attention as a composition of ATen's operators around cogwheel::row_map, for what the fused kernels do not
// have: second derivatives and tangents of all queries at once, and devices without an engine, in blocks of queries
// (pairwise_composed.cpp). It holds scores, weights and their derivatives of its queries whole, O(queries · keys) for
// each head and the square of 1 + P of it for second derivatives, where P is the number of the map's scalars; an
// additive score also holds queries · keys · head_dim. What is not finite stays out where no query sees it; where some
// do, it reaches the derivatives of all, unless each pair is taken by itself.
#pragma once
#include <torch/csrc/autograd/variable.h>

#include <iterator>
#include <optional>
#include <vector>

#include "cogwheel/ops/pairwise.h"
#include "cogwheel/ops/visible_pairs.h"

namespace cogwheel {

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
#define PAIRWISE_DIFFERENTIABLE(name) name,
#include "cogwheel/ops/pairwise_options.def"
  differentiable,
  before_others = differentiable - 1,
#define PAIRWISE_TENSOR(name) name,
#include "cogwheel/ops/pairwise_options.def"
  count
};

// In the order of the places.
inline constexpr std::optional<at::Tensor> PairwiseOptions::*option_tensors[] = {
#define PAIRWISE_DIFFERENTIABLE(name) &PairwiseOptions::name,
#include "cogwheel/ops/pairwise_options.def"
#define PAIRWISE_TENSOR(name) &PairwiseOptions::name,
#include "cogwheel/ops/pairwise_options.def"
};
static_assert(std::size(option_tensors) == count - options);

// Whether a differentiable option needs a gradient, in the order of the places.
inline constexpr bool WantedGradients::*wanted[] = {
#define PAIRWISE_DIFFERENTIABLE(name) &WantedGradients::name,
#include "cogwheel/ops/pairwise_options.def"
};
}  // namespace pairwise_input

// Undefined where there is none.
std::vector<at::Tensor> pairwise_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const PairwiseOptions& options);

// Which queries of a call are composed, and how.
struct DenseQueries {
  // Unless given, those of the inputs are all.
  std::optional<QueryRows> rows = {};
  // Products pair by pair, from what the query sees alone, in queries · keys · width numbers: what is not finite then
  // reaches only the rows that see it, and only what they saw.
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
  // Of these inputs in place of those in the options.
  DensePairwise(const std::vector<at::Tensor>& inputs, std::string_view mechanism, const PairwiseOptions& options,
                const DenseQueries& queries = {});

  // [B or 1, Hq or 1, N, M], true where the query sees the key.
  const at::Tensor& visible() const { return visible_; }

  // The running maximum of the energy, [B, Hq, N], as forward leaves it to backward; without a derivative.
  at::Tensor shift() const;

  // The value of the shift does not matter, but exponents stay small by it.
  DenseWeights weigh(const at::Tensor& shift) const;

  // 1/n over the n keys that the query sees, 0 where hidden.
  at::Tensor uniform_weights() const;

  // In the type that is computed in.
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
// options. `shift` is the running maximum that the kernel found, [B, Hq, N].
at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options, bool wide = false);

}  // namespace cogwheel
