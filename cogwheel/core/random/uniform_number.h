// Uniform random numbers that are the same with every standard library; std::uniform_real_distribution may differ.
#pragma once
#include <random>

namespace cogwheel {

// In [0, 1), from the upper 53 bits.
inline double uniform_number(std::mt19937_64& generator) { return static_cast<double>(generator() >> 11) * 0x1p-53; }

}  // namespace cogwheel
