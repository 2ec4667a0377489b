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

// The best supported one, or the one of that name unless it is empty. Throws UsageError where it is unknown or this
// machine lacks it.
std::string_view supported_isa(std::string_view name = {});

// The environment variable COGWHEEL_ISA as of the first call; empty if it names no instruction set.
std::string_view forced_isa();

// The instruction set of this process, supported_isa(forced_isa()), computed once.
std::string_view chosen_isa();

}  // namespace cogwheel
