// Products of bfloat16 numbers, two terms in one instruction, where the machine has it (AVX512-BF16, AMX-BF16).
//
// A pair is two neighbouring elements of a row, held as the bits of a float. Products of bfloat16 are exact in float;
// sums are rounded to nearest at every term, and subnormal numbers count as 0. The order of additions to an element of
// C is that of one product (here one chain in the order of the pairs; amx_product.h has another), whatever the tile. So
// forward, backward and decode all compute scores with the one product that chosen_pair_product() names: two products
// could disagree on the sign of a score, and signed maps jump there.
#pragma once
#include <cstdint>
#include <string_view>

namespace cogwheel {

struct PairOperands {
  const float* a;  // pair k of row r at a[r·a_row + k]
  std::int64_t a_row;
  const float* b;  // pairs k of 16 columns and more at b + k·b_row
  std::int64_t b_row;
  float* c;  // row r at c + r·c_row
  std::int64_t c_row;
  bool add = false;  // to C, instead of to 0
};

// C [rows][16·vectors] = or += the sums of `pairs` pairs of products, by AVX512-BF16. Only where
// machine_has_avx512_bf16().
void pair_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);
bool machine_has_avx512_bf16();

struct PairProduct {
  static constexpr std::int64_t max_group_rows = 30;
  std::string_view instructions;
  void (*multiply)(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);
  void (*release)();        // what `multiply` leaves behind on a thread, or null
  std::int64_t group_rows;  // best multiplied at once; a multiple of 6, the height of the tiles of other products
};

// The best of this machine; null if it has none, or if an instruction set is forced, since none of those includes it.
const PairProduct* pair_product_beside(std::string_view forced_isa);

// The pair product of this process, given its forced_isa().
const PairProduct* chosen_pair_product();

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
