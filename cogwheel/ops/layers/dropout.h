// Dropout by a mask that is a function of a seed and an element's index, so that backward recomputes it instead of
// keeping it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/core/philox.h"

namespace cogwheel::ops {

// The purpose of draws is the last word of the counter, so that one seed serves for masks and to derive other seeds.
enum class DrawPurpose : std::uint32_t { masks, seeds };

inline PhiloxWords draw(std::uint64_t seed, std::uint64_t counter, DrawPurpose purpose) {
  return philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0,
                 static_cast<std::uint32_t>(purpose)},
                philox_key(seed));
}

// x · mask / (1 − rate), contiguous; any shape, float32 or float64, rate in [0, 1). The same bits on any device and for
// any number of threads. Linear in x: differentiable any number of times.
at::Tensor dropout(const at::Tensor& x, double rate, std::int64_t seed);

}  // namespace cogwheel::ops
