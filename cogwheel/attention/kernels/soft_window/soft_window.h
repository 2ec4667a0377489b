// The engine of Graves' window (attention/mechanisms/graves_window.h): weights of positions and the sum of values under
// them.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/core/parallel.h"

namespace cogwheel {

// All contiguous. Position u of entry b has weight φ for u = 1 … lengths[b] + 1, and 0 beyond; values at and beyond the
// length are not read.
template <class T>
struct SoftWindowProblem {
  std::int64_t batch = 0, steps = 0, components = 0, positions = 0, width = 0;
  const T *alpha = nullptr, *beta = nullptr, *kappa = nullptr;  // [batch, steps, components]
  const T* values = nullptr;                                    // [batch, positions, width]
  const std::int64_t* lengths = nullptr;                        // [batch]; null: all are `positions` long

  std::int64_t length(std::int64_t entry) const { return lengths ? lengths[entry] : positions; }
};

template <class T>
struct SoftWindowForward : SoftWindowProblem<T> {
  T* window = nullptr;   // [batch, steps, width]
  T* weights = nullptr;  // φ [batch, steps, positions + 1]
};

// Gradients are the same bits for any number of workers.
template <class T>
struct SoftWindowBackward : SoftWindowProblem<T> {
  const T* weights = nullptr;                                       // of forward
  const T *window_gradient = nullptr, *weights_gradient = nullptr;  // null: 0
  T *alpha_gradient = nullptr, *beta_gradient = nullptr, *kappa_gradient = nullptr;
  T* values_gradient = nullptr;  // null: not asked for
};

template <class T>
struct SoftWindowKernel {
  void (*forward)(const SoftWindowForward<T>&, const Executor&);
  void (*backward)(const SoftWindowBackward<T>&, const Executor&);
};

// The kernel for an instruction set, by default the one that this process runs. T is float or double. Throws
// UsageError: "no kernel for …".
template <class T>
SoftWindowKernel<T> soft_window_kernel(std::string_view isa = chosen_isa());

}  // namespace cogwheel
