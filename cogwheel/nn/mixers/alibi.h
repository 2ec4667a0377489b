// Attention with linear biases: scores that fall with the distance of a key, at another rate for each head.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {

// [heads] float64, by which ALiBi multiplies distances: 2^(−8 i / heads) for i = 1 … heads where that is a power of
// two; else those of the next smaller power of two, and of every second head of the next larger one. Press et al.,
// "Train Short, Test Long" (2022), section 3, and their code.
at::Tensor alibi_slopes(std::int64_t heads);

}  // namespace cogwheel::nn
