// Every kernel that was built or compiled while the program runs, as `cogwheel list kernels` shows it. Those of row
// maps are available_kernels (pairwise/pairwise.h).
#pragma once
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel {

// Of the family with a state: what a walk computes, by transition where each has one of its own, and state spaces.
std::vector<KernelEntry> available_recurrent_kernels(std::string_view isa = chosen_isa());

// Of a kernel on the CPU, in a process whose instruction set is `chosen`; `how` describes one that is chosen. The texts
// must outlive the entry.
KernelEntry entry_of_kernel(std::string_view computes, std::string_view isa, std::string_view dtype,
                            std::string_view chosen, std::string_view how);

}  // namespace cogwheel
