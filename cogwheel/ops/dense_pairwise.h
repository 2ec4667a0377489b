// Pairwise attention as a composition of ATen's operators around cogwheel::row_map, for what the fused kernels do not
// have: second derivatives and tangents. It holds scores, weights and their derivatives whole, O(queries · keys) for
// each head and the square of 1 + P of it for second derivatives, where P is the number of the map's scalars; an
// additive score also holds queries · keys · head_dim. What is not finite stays out where no query sees it; where some
// do, it reaches the derivatives of all.
#pragma once
#include <torch/csrc/autograd/variable.h>

#include <iterator>
#include <optional>
#include <vector>

#include "cogwheel/ops/pairwise.h"

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

// The output of cogwheel::pairwise, `wide` or in the type of the query, of these inputs in place of those in the
// options. `shift` is the running maximum that the kernel found, [B, Hq, N]: its value does not matter, but exponents
// stay small by it.
at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options, bool wide = false);

}  // namespace cogwheel
