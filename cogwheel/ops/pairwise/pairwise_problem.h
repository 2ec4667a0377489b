// A call as kernels take it that know pointers, sizes and strides (attention/kernels/pairwise/pairwise.h), whichever
// device the pointers are of. T is the compute dtype, float or double.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"

namespace cogwheel::ops {

// Owns the memory behind the options of a problem while kernels run.
struct HeldOptions {
  at::Tensor key_lengths, first_positions, ranges, seen_by, bias, energy_bias, alibi, centers, score_weight;
};

// A tensor's rows, const T where kernels only read. The elements may be of 16 bits.
template <class T>
HeadsView<T> heads_view(const at::Tensor& tensor);

// The part of the problem that every pass shares, without the inverse of a table of ranges (`visibility.seen_by`).
template <class T>
void describe(PairwiseProblem<T>& problem, const PairwiseCall& call, HeldOptions& held);

}  // namespace cogwheel::ops
