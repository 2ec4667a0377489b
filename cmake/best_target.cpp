// Prints the best of the instruction sets that kernels are built for and this machine runs, by Highway's name.
#include <hwy/targets.h>

#include <cstdio>

int main() {
  [[maybe_unused]] const auto supported = hwy::SupportedTargets();
#if HWY_ARCH_X86
  std::fputs((supported & HWY_AVX3) != 0   ? "HWY_AVX3"
             : (supported & HWY_AVX2) != 0 ? "HWY_AVX2"
                                           : "HWY_EMU128",
             stdout);
#elif HWY_ARCH_ARM_A64
  std::fputs("HWY_NEON", stdout);
#else
  std::fputs("HWY_EMU128", stdout);
#endif
}
