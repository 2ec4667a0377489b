// Registers operators' kernels for devices according to the choice of engine (engine.h).
#pragma once
#include <torch/library.h>

#include <utility>

#include "cogwheel/ops/support/engine.h"

namespace cogwheel::ops {

// Registers a kernel of the CPU's fused engine, in a block of TORCH_LIBRARY_IMPL(…, CPU, …).
template <class Kernel>
void implement_fused(torch::Library& library, const char* name, Kernel&& kernel) {
  if (!attention_is_composed()) library.impl(name, std::forward<Kernel>(kernel));
}

// Registers, for every device without a kernel of its own, the CPU's kernel of an operator: its inputs are copied to
// the host, and its results to the device. In a block of TORCH_LIBRARY_IMPL(…, CompositeExplicitAutograd, …).
void implement_on_host(torch::Library& library, const char* name);

}  // namespace cogwheel::ops
