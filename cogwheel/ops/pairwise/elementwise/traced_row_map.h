// A row map on any device: each step of its trace (attention/authoring/row_map_trace.h) is an operator of ATen.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/attention/authoring/trace.h"

namespace cogwheel::ops {

// Writes the functions of a trace at all elements of `argument` [B, H, N, M] to `values` [functions, B, H, N, M]. shift
// and visible broadcast to the argument, parameters [H, P] has at least the scalars that the trace names. All are on
// one device, and no number is read from it.
void write_traced(const authoring::Trace& trace, const at::Tensor& argument, const at::Tensor& shift,
                  const at::Tensor& visible, const at::Tensor& parameters, const at::Tensor& values);

}  // namespace cogwheel::ops
