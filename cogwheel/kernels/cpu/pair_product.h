// Products of bfloat16 numbers, two terms in one instruction, where the machine has it (AVX512-BF16).
//
// A pair is two neighbouring elements of a row, held as the bits of a float. Products of bfloat16 are exact in float;
// sums are rounded to nearest at every term, and subnormal numbers count as 0. Each element of C is one chain in the
// order of the pairs, whatever the tile: a score is the same bit for bit in forward and backward.
#pragma once
#include <cstdint>

namespace cogwheel {

// By this machine; not where COGWHEEL_ISA names an instruction set, all of which are without.
bool multiplies_bfloat16_pairs();

struct PairOperands {
  const float* a;  // pair k of row r at a[r·a_row + k]
  std::int64_t a_row;
  const float* b;  // pairs k of 16 columns and more at b + k·b_row
  std::int64_t b_row;
  float* c;  // row r at c + r·c_row
  std::int64_t c_row;
};

// C [rows][16·vectors] = the sums of `pairs` pairs of products. Only where multiplies_bfloat16_pairs().
void pair_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);

}  // namespace cogwheel
