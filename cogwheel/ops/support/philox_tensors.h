// The generator of core/philox.h in operators of ATen, so that each device draws the bits that the CPU draws.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace cogwheel::ops {

// Words of 32 bits as int64, because few devices multiply other integers; shapes that broadcast.
using WordTensors = std::array<at::Tensor, 4>;

// The lowest 32 bits of each number.
at::Tensor word_of(const at::Tensor& numbers);

// The draws at counters. `seed` is one int64, on their device: no number is read from there.
WordTensors philox_of_tensors(WordTensors counter, const at::Tensor& seed);

}  // namespace cogwheel::ops
