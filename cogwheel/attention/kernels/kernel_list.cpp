#include "cogwheel/attention/kernels/kernel_list.h"

#include <algorithm>

#include "cogwheel/attention/kernels/isa.h"

namespace cogwheel {

KernelEntry entry_of_kernel(std::string_view computes, std::string_view isa, std::string_view dtype,
                            std::string_view chosen, std::string_view how) {
  const auto sets = instruction_sets();
  const bool supported = std::any_of(sets.begin(), sets.end(),
                                     [&](const InstructionSet& set) { return set.name == isa && set.supported; });
  const std::string_view reason = isa == chosen ? how
                                  : supported   ? "a better one is chosen"
                                                : "this machine lacks the instructions";
  return {computes, "cpu", isa, dtype, isa == chosen, std::string(reason)};
}

}  // namespace cogwheel
