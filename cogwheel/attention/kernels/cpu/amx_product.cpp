#include "cogwheel/attention/kernels/cpu/amx_product.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cogwheel {
namespace {

// What ldtilecfg reads.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, std::int64_t tile_rows, std::int64_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(tile_rows > 0 ? bytes : 0);
  }
};
static_assert(sizeof(TileConfiguration) == 64);

thread_local TileShape configured;

// In assembly, because the compiler must know that loads read memory and stores write it: GCC 12's _tile_loadd does not
// say so, and no flag is needed for a unit that names its instructions itself.
struct AmxTiles {
  static void configure(const TileShape& shape) {
    if (shape == configured) return;
    constexpr std::int64_t vector_bytes = 64, pair_bytes = 4;
    TileConfiguration configuration;
    for (int right = 0; right < 2; ++right) {
      configuration.set(right, shape.upper, vector_bytes);
      configuration.set(2 + right, shape.lower, vector_bytes);
      configuration.set(6 + right, shape.pairs, vector_bytes);
    }
    configuration.set(4, shape.upper, shape.pairs * pair_bytes);
    configuration.set(5, shape.lower, shape.pairs * pair_bytes);
    asm volatile("ldtilecfg %0" : : "m"(configuration) : "memory");
    configured = shape;
  }
  template <int tile>
  static void load(const float* from, std::int64_t row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row * 4), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(float* to, std::int64_t row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row * 4), "i"(tile) : "memory");
  }
  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int c, int a, int b>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return false;
  unsigned enabled = 0, upper = 0;
  asm("xgetbv" : "=a"(enabled), "=d"(upper) : "c"(0));
  constexpr unsigned tile_state = 1u << 17 | 1u << 18;  // configuration and data: the system saves both
  if ((enabled & tile_state) != tile_state) return false;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  // Palette 1: EBX has the bytes of a row and, above, the number of tiles; ECX the rows.
  if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d)) return false;
  return (b & 0xffff) >= 64 && (b >> 16) >= 8 && (c & 0xffff) >= 16;
}

bool system_permits_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool machine_has_amx() {
  static const bool has = processor_has_amx() && system_permits_tiles();
  return has;
}

void amx_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands) {
  AmxBlocks<AmxTiles>::product(rows, vectors, pairs, operands);
}

void release_amx() {
  if (configured == TileShape{}) return;
  asm volatile("tilerelease" : : : "memory");
  configured = {};
}

}  // namespace cogwheel

#else

namespace cogwheel {

bool machine_has_amx() { return false; }
void amx_product(std::int64_t, std::int64_t, std::int64_t, const PairOperands&) {}
void release_amx() {}

}  // namespace cogwheel

#endif
