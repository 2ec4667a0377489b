// Whether the dispatcher would only pass a call on to the kernel.
#pragma once
#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace cogwheel::ops {

// True where the tensors are strided ones of the CPU, no gradient or tangent is to be recorded, and nothing watches or
// replaces calls of operators (a mode, a transform, a tracer, autocast, a profiler): then a kernel may be called
// without the dispatcher, which for an operator of two dozen arguments costs more than the attention of a few tokens.
bool is_plain_call(std::initializer_list<const at::Tensor*> tensors);

}  // namespace cogwheel::ops
