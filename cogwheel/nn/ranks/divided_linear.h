// Two linear layers and what is between them, of which ranks have shares: each holds and computes some of the units
// between, from all that is read, and what they write is summed once. Shoeybi et al., "Megatron-LM" (2019), section 3.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/nn/ranks/divided_parameter.h"
#include "cogwheel/nn/ranks/shared_pass.h"
#include "cogwheel/nn/weights/linear.h"

namespace cogwheel::nn {

// The first: its outputs are divided, a share of each of these parts of them; a rank's share is a layer like any other.
std::vector<DividedParameter> divided_outputs(const LinearImpl& linear, const std::vector<std::int64_t>& parts);
// The second: its inputs are divided; the bias is whole on every rank.
DividedParameter divided_inputs(const LinearImpl& linear);

// own [..., inputs / ranks] through this rank's share of the second → [..., outputs] of all inputs, alike on all ranks.
at::Tensor sum_of_own(const LinearImpl& linear, const at::Tensor& own, const SharedHeads& ranks,
                      const std::string& what);

}  // namespace cogwheel::nn
