// The product of tile_product.h where B comes from memory and C has few rows, as in decoding: the same bits. Tiles are
// as wide as registers allow, so that B is read once and in its order, what follows is asked for meanwhile, and B may
// be of bfloat16, widened as it is read. Compiled once per instruction set and type in tile_product.cpp.in.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/heads_view.h"

namespace cogwheel::HWY_NAMESPACE {

// An element of B that stands for rows 2k and 2k + 1, one below the other.
struct BFloat16Pair {
  std::uint16_t upper_row, lower_row;
};

template <class T, class Element>
struct StreamedOperands {
  const T* a;  // element (r, k) at a[r·a_row + k]
  std::int64_t a_row;
  const Element* b;  // row k at b + k·b_row
  std::int64_t b_row;
  T* c;  // row r at c + r·c_row
  std::int64_t c_row;
  bool add = false;          // to C, instead of to 0
  const T* alpha = nullptr;  // [rows], factors of C before anything is added to it; null: none
};

// rows × (vectors · lanes) elements of C, with `inner` terms each, of pairs twice as many. Element is T, or BFloat16 or
// BFloat16Pair where T is float.
template <class T, class Element>
void streamed_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                      const StreamedOperands<T, Element>& operands);

}  // namespace cogwheel::HWY_NAMESPACE
