// Products of bfloat16 numbers, two terms in one instruction, where the machine has it (AVX512-BF16, AMX-BF16).
//
// A pair is two neighbouring elements of a row, held as the bits of a float. Products of bfloat16 are exact in float;
// sums are rounded to nearest at every term, and subnormal numbers count as 0. The order of additions to an element of
// C is that of one product (here one chain in the order of the pairs; amx_product.h has another), whatever the tile. So
// forward, backward and decode all compute scores with one product (pairwise/product_choice.h): two products could
// disagree on the sign of a score, and signed maps jump there.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace cogwheel {

// How far ahead of B numbers are asked for that come from memory, in bytes: a page, where the processor's own prefetch
// ends. Of 2, 4, 8 and 16 KiB, 4 was best (docs/performance.md, Decoding).
inline constexpr std::int64_t stream_distance = 4096;

struct PairOperands {
  const float* a;  // pair k of row r at a[r·a_row + k·a_pair]
  std::int64_t a_row;
  const float* b;  // pairs k of 16 columns and more at b + k·b_row
  std::int64_t b_row;
  float* c;  // row r at c + r·c_row
  std::int64_t c_row;
  bool add = false;         // to C, instead of to 0
  std::int64_t a_pair = 1;  // other than 1 only for a product that reads_columns
  // Where not 0, columns of B lie in panels of 64: column x in the one that begins at b + x / 64 · b_panel.
  std::int64_t b_panel = 0;
  bool streamed = false;  // B comes from memory: a hint

  const float* b_column(std::int64_t x) const { return b + (b_panel == 0 ? x : x / 64 * b_panel + x % 64); }
};

// C [rows][16·vectors] = or += the sums of `pairs` pairs of products, by AVX512-BF16. Only where
// machine_has_avx512_bf16().
void pair_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);
bool machine_has_avx512_bf16();

struct PairProduct {
  static constexpr std::int64_t max_group_rows = 32;
  // The most pairs that a product sums by themselves before it adds them to others: sums that begin at multiples of
  // these are unchanged by terms of 0 before them.
  static constexpr std::int64_t chain_pairs = 16;
  std::string_view name;          // "pairs" or "amx"
  std::string_view instructions;  // as their vendor writes them
  void (*multiply)(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);
  void (*release)();        // what `multiply` leaves behind on a thread, or null
  std::int64_t group_rows;  // best multiplied at once; even
  bool reads_columns;       // whether the pairs of a row of A may lie apart
};

// Those whose instructions this machine has.
std::span<const PairProduct> pair_products();

// Its destructor releases the state that products leave on this thread; for the scope of an engine's task.
class PairProductUse {
 public:
  explicit PairProductUse(const PairProduct* product) : product_(product) {}
  PairProductUse(const PairProductUse&) = delete;
  PairProductUse& operator=(const PairProductUse&) = delete;
  ~PairProductUse() {
    if (product_ && product_->release) product_->release();
  }

 private:
  const PairProduct* product_;
};

}  // namespace cogwheel
