#include "cogwheel/kernels/isa.h"

#include <array>
#include <cstdlib>
#include <string>

#include <hwy/targets.h>

#include "cogwheel/core/error.h"

namespace cogwheel {

std::span<const InstructionSet> instruction_sets() {
  static const std::array sets = {
#if HWY_ARCH_X86
    InstructionSet{"avx512", (hwy::SupportedTargets() & HWY_AVX3) != 0},
    InstructionSet{"avx2", (hwy::SupportedTargets() & HWY_AVX2) != 0},
#ifndef COGWHEEL_WITHOUT_PORTABLE_KERNELS
    InstructionSet{"portable", true},
#endif
#elif HWY_ARCH_ARM_A64
    InstructionSet{"neon", true},
#else
    InstructionSet{"portable", true},
#endif
  };
  return sets;
}

std::string_view chosen_isa() {
  const char* wanted = std::getenv("COGWHEEL_ISA");
  std::string supported;
  for (const InstructionSet& set : instruction_sets()) {
    if (!set.supported) continue;
    if (wanted == nullptr || *wanted == '\0' || set.name == wanted) return set.name;
    supported.append(supported.empty() ? "one of " : ", ").append(set.name);
  }
  throw UsageError(expected_got("COGWHEEL_ISA", supported + " (what this machine runs)", wanted));
}

}  // namespace cogwheel
