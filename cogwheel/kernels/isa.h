// The instruction sets that kernels are built for, and which of them this machine runs.
#pragma once
#include <span>
#include <string_view>

namespace cogwheel {

struct InstructionSet {
  std::string_view name;  // avx512, avx2, neon or portable
  bool supported;         // by this machine and its operating system
  bool complete;          // every row map has a kernel for it; where not, a few that the tests use
};

// Those that were built (cmake/instruction_sets.cmake), best first.
std::span<const InstructionSet> instruction_sets();

// The best supported one, or the one that the environment variable COGWHEEL_ISA names. Throws UsageError where it names
// one that is unknown or that this machine lacks.
std::string_view chosen_isa();

}  // namespace cogwheel
