// cogwheel::token_walk by kernels for GPUs (python/cogwheel/device_kernels/walks).
#pragma once
#include "cogwheel/ops/recurrent/token_walk.h"
#include "cogwheel/ops/recurrent/walk_operator.h"

namespace cogwheel::ops {

bool is_launched(const TokenWalk& walk);

// Of checked walks.
Walked launched(const TokenWalk& walk);
WalkGradients<TokenWalk> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                       const TokenWalk& walk);

}  // namespace cogwheel::ops
