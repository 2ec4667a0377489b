// cogwheel::delta_walk by kernels for GPUs (python/cogwheel/device_kernels/walks), token by token.
#pragma once
#include "cogwheel/ops/recurrent/delta_walk.h"
#include "cogwheel/ops/recurrent/walk_operator.h"

namespace cogwheel::ops {

// Whether it is, and is as wide as kernels are.
bool is_launched(const DeltaWalk& walk);

// Of checked walks.
Walked launched(const DeltaWalk& walk);
WalkGradients<DeltaWalk> launched_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                       const DeltaWalk& walk);

}  // namespace cogwheel::ops
