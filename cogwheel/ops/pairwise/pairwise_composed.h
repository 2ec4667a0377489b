// The operators beneath `attention`, composed of ATen's: for devices without an engine, and for what an engine lacks.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"

namespace cogwheel::ops {

// Calls that were checked and have numbers, whose tensors have any strides. The callers keep autocast out.
void compose_pairwise(const PairwiseCall& call, const WantedOutputs& wanted, const PairwiseResults& results);
PairwiseGradients compose_pairwise_backward(const PairwiseCall& call, const at::Tensor& gradient,
                                            const at::Tensor& shift, const WantedGradients& wanted);
void compose_mixture_statistics(const PairwiseCall& call, const MixtureMembers& members, const at::Tensor& statistics);

}  // namespace cogwheel::ops
