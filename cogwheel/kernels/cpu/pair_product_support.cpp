#include <cstdlib>

#include "cogwheel/kernels/cpu/pair_product.h"

namespace cogwheel {

bool multiplies_bfloat16_pairs() {
#if defined(__x86_64__)
  const char* isa = std::getenv("COGWHEEL_ISA");
  if (isa != nullptr && *isa != '\0') return false;
  __builtin_cpu_init();
  static const bool supported = __builtin_cpu_supports("avx512bf16");  // false where the system saves no such registers
  return supported;
#else
  return false;
#endif
}

#if !defined(__x86_64__)
void pair_product(std::int64_t, std::int64_t, std::int64_t, const PairOperands&) {}
#endif

}  // namespace cogwheel
