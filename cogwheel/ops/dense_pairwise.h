// Pairwise attention as a composition of ATen's operators around cogwheel::row_map, for what the fused kernels do not
// have: second derivatives and tangents. It holds scores, weights and their derivatives whole, O(queries · keys) for
// each head and the square of 1 + P of it for second derivatives, where P is the number of the map's scalars; an
// additive score also holds queries · keys · head_dim.
#pragma once
#include <torch/csrc/autograd/variable.h>

#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

// Every tensor that cogwheel::pairwise reads; gradients and tangents come from those before `differentiable`.
namespace pairwise_input {
enum Place : std::size_t {
  query,
  key,
  value,
  parameters,
  bias,
  energy_bias,
  centers,
  score_weight,
  differentiable,
  key_lengths = differentiable,
  ranges,
  alibi,
  seed,
  count
};
}

// Undefined where there is none.
std::vector<at::Tensor> pairwise_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const PairwiseOptions& options);

// The output of cogwheel::pairwise, of these inputs in place of those in the options. `shift` is the running maximum
// that the kernel found, [B, Hq, N]: its value does not matter, but exponents stay small by it.
at::Tensor dense_pairwise(const std::vector<at::Tensor>& inputs, const at::Tensor& shift, std::string_view mechanism,
                          const PairwiseOptions& options);

}  // namespace cogwheel
