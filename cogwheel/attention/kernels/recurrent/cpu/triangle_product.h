// What products of a chunk's tokens need beside cpu/tile_product.h: a product with a triangle, and transposes. Included
// inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Rows and vectors of a tile: their product of registers holds its sums, of 16 or of 32.
constexpr int triangle_rows = 4, triangle_vectors = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;

template <class T, int rows, int vectors>
HWY_NOINLINE void triangle_tile(std::int64_t first, const ProductOperands<T>& operands) {
  using V = Vector<T>;
  const ProductOperands<T> x = operands;  // a copy that stores to C cannot alias
  T* const c = x.c + first * x.c_row;
  V sum[rows][vectors];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = V::load(c + r * x.c_row + v * V::lanes);
  const T *a = x.a + first * x.a_row, *b = x.b;
  for (std::int64_t k = 0; k < first; ++k, a += x.a_inner, b += x.b_row) {
    V of_b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of_b[v] = V::load(b + v * V::lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const V of_a(a[r * x.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = V::fma(of_a, of_b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < rows; ++k, a += x.a_inner, b += x.b_row) {
    V of_b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of_b[v] = V::load(b + v * V::lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      if (r < k) continue;
      const V of_a(a[r * x.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = V::fma(of_a, of_b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v].store(c + r * x.c_row + v * V::lanes);
}

// Row r of C += Σ_{k ≤ r} A(r, k) · row k of B. Nothing above the diagonal is read: a NaN there reaches no row. With
// operands at their last rows and steps below 0, k ≥ r.
template <class T>
void add_triangle_product(std::int64_t rows, std::int64_t vectors, const ProductOperands<T>& operands) {
  ProductOperands<T> part = operands;
  const auto pass = [&](auto wide) {
    std::int64_t row = 0;
    for (; row + triangle_rows <= rows; row += triangle_rows) triangle_tile<T, triangle_rows, wide()>(row, part);
    for (; row < rows; ++row) triangle_tile<T, 1, wide()>(row, part);
    part.b += wide() * Vector<T>::lanes;
    part.c += wide() * Vector<T>::lanes;
  };
  std::int64_t left = vectors;
  for (; left >= triangle_vectors; left -= triangle_vectors) pass(std::integral_constant<int, triangle_vectors>());
  if constexpr (triangle_vectors > 2)
    for (; left >= 2; left -= 2) pass(std::integral_constant<int, 2>());
  for (; left > 0; --left) pass(std::integral_constant<int, 1>());
}

template <class T>
HWY_NOINLINE void transpose_square(const T* from, std::int64_t from_row, T* to, std::int64_t to_row) {
  using V = Vector<T>;
  constexpr int lanes = V::lanes;
  const typename V::Tag tag;
  V x[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) x[i] = V::load(from + i * from_row);
    // Each step takes the even and the odd lanes of neighbours apart: log2(lanes) of them are a transpose.
#pragma GCC unroll 4
  for (int step = 1; step < lanes; step *= 2) {
    V apart[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes / 2; ++i) {
      apart[i] = hn::ConcatEven(tag, x[2 * i + 1].raw, x[2 * i].raw);
      apart[i + lanes / 2] = hn::ConcatOdd(tag, x[2 * i + 1].raw, x[2 * i].raw);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) x[i] = apart[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) x[i].store(to + i * to_row);
}

// [vectors_down · lanes][vectors_across · lanes] to its transpose.
template <class T>
void transpose(const T* from, std::int64_t from_row, std::int64_t vectors_down, std::int64_t vectors_across, T* to,
               std::int64_t to_row) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for (std::int64_t row = 0; row < vectors_down * lanes; row += lanes)
    for (std::int64_t column = 0; column < vectors_across * lanes; column += lanes)
      transpose_square(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
