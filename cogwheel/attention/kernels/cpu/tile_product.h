// The one product behind every step of the pairwise engine: C = A·B, C += A·B or C = diag(α)·C + A·B, in register
// tiles.
//
// A is read one scalar at a time, so that its transpose needs only other strides; B and C are read and written in whole
// vectors. Each element of C is one chain of fused multiply-adds in the order of `inner`, whatever the tile: a score
// is the same bit for bit in forward, backward and decode.
// Compiled once per instruction set and type in tile_product.cpp.in.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/key_panels.h"

namespace cogwheel::HWY_NAMESPACE {

constexpr std::int64_t panel_keys = keys_of_panel;

template <class T>
struct ProductOperands {
  const T* a;  // element (r, k) at a[r·a_row + k·a_inner]
  std::int64_t a_row, a_inner;
  const T* b;  // row k at b + k·b_row
  std::int64_t b_row;
  T* c;  // row r at c + r·c_row
  std::int64_t c_row;
  // Where not 0, columns of B lie in panels: column x in the one that begins at b + x / panel_keys · b_panel.
  std::int64_t b_panel = 0;
};

// rows × (vectors · lanes) elements of C, with `inner` terms each.
template <class T>
void product(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& operands);
template <class T>
void add_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& operands);
// α [rows]
template <class T>
void rescale_add_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                         const ProductOperands<T>& operands, const T* alpha);

}  // namespace cogwheel::HWY_NAMESPACE
