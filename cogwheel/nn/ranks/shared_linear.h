// Two linear layers of which ranks compute shares, and one sum: each rank some of the units between them, of all that
// are read. Every rank has the whole weights; gradients are those of its units. Shoeybi et al., "Megatron-LM" (2019),
// section 3.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/nn/ranks/shared_pass.h"
#include "cogwheel/nn/weights/linear.h"

namespace cogwheel::nn {

// x [..., inputs] → [..., Σ parts / ranks], the share of this rank of each part of the outputs, one after the other.
// The ranks divide every part.
at::Tensor own_outputs(const LinearImpl& linear, const at::Tensor& x, const SharedHeads& ranks,
                       const std::vector<std::int64_t>& parts);

// own [..., inputs / ranks], of this rank → [..., outputs] of all inputs, alike on all ranks.
at::Tensor sum_of_own(const LinearImpl& linear, const at::Tensor& own, const SharedHeads& ranks,
                      const std::string& what);

}  // namespace cogwheel::nn
