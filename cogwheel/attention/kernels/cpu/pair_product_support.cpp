#include "cogwheel/attention/kernels/cpu/amx_product.h"
#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/cpu/pair_rows.h"

namespace cogwheel {

bool machine_has_avx512_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");  // false where the system saves no such registers
#else
  return false;
#endif
}

std::span<const PairProduct> pair_products() {
  static constexpr PairProduct all[] = {
      {.name = "pairs",
       .instructions = "AVX512-BF16",
       .multiply = pair_product,
       .release = nullptr,
       .group_rows = 24,
       .reads_columns = true},
      {.name = "amx",
       .instructions = "AMX-BF16",
       .multiply = amx_product,
       .release = release_amx,
       .group_rows = 32,
       .reads_columns = false},
  };
  // Rows are rounded and paired by AVX512-BF16 for either.
  static const std::size_t here = !machine_has_avx512_bf16() ? 0 : machine_has_amx() ? 2 : 1;
  return {all, here};
}

#if !defined(__x86_64__)
void pair_product(std::int64_t, std::int64_t, std::int64_t, const PairOperands&) {}
bool pair_rows(const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t) { return false; }
void round_to_pairs(std::int64_t, std::int64_t, const float*, std::int64_t, float*, std::int64_t) {}
void round_to_pairs_of_rows(std::int64_t, std::int64_t, const float*, std::int64_t, const float*, float*,
                            std::int64_t) {}
void select_of_pairs(const float*, std::int64_t, bool, bool, float*) {}
#endif

}  // namespace cogwheel
