// cogwheel::state_space by kernels for GPUs (python/cogwheel/device_kernels/walks), token by token.
#pragma once
#include "cogwheel/ops/recurrent/state_space.h"
#include "cogwheel/ops/recurrent/walk_operator.h"

namespace cogwheel::ops {

// Whether it is, and is as wide as kernels are.
bool is_launched(const StateSpace& space);

// Of checked walks.
Walked launched(const StateSpace& space);
WalkGradients<StateSpace> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                        const StateSpace& space);

}  // namespace cogwheel::ops
