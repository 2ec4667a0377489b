// Kernels of row maps that users define: compiled while the program runs, found by pairwise_kernel like any other.
#pragma once
#include <string_view>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel {

// Of the CPU. Any thread may call. If the name and instruction set have kernels already, they stay.
void add_pairwise_kernels(std::string_view mechanism, std::string_view isa, const PairwiseKernel<float>& of_float,
                          const PairwiseKernel<double>& of_double);

}  // namespace cogwheel
