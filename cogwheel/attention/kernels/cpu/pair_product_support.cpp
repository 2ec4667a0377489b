#include "cogwheel/attention/kernels/cpu/amx_product.h"
#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/cpu/pair_rows.h"
#include "cogwheel/attention/kernels/isa.h"

namespace cogwheel {

bool machine_has_avx512_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");  // false where the system saves no such registers
#else
  return false;
#endif
}

const PairProduct* pair_product_beside(std::string_view forced_isa) {
  if (!forced_isa.empty()) return nullptr;
  static constexpr PairProduct by_amx{"AMX-BF16", amx_product, release_amx, PairProduct::max_group_rows},
      by_avx512{"AVX512-BF16", pair_product, nullptr, 6};
  static const PairProduct* const best = machine_has_amx() && machine_has_avx512_bf16() ? &by_amx
                                         : machine_has_avx512_bf16()                    ? &by_avx512
                                                                                        : nullptr;
  return best;
}

const PairProduct* chosen_pair_product() {
  static const PairProduct* const chosen = pair_product_beside(forced_isa());
  return chosen;
}

#if !defined(__x86_64__)
void pair_product(std::int64_t, std::int64_t, std::int64_t, const PairOperands&) {}
bool pair_rows(const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t) { return false; }
void round_to_pairs(std::int64_t, std::int64_t, const float*, float*, std::int64_t) {}
void select_of_pairs(const float*, std::int64_t, bool, bool, float*) {}
#endif

}  // namespace cogwheel
