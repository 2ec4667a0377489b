// The definitions of tile_product.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// 6 × 4 registers of accumulators, 4 of B and 1 of A fill the 32 of AVX-512 and NEON; 6 × 2 fill 16.
constexpr int tile_rows = 6;
constexpr int tile_vectors = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 4 : 2;

enum class Start { zero, add, rescale };

constexpr std::int64_t column_of_b(std::int64_t x, std::int64_t b_panel) {
  return b_panel == 0 ? x : x / panel_keys * b_panel + x % panel_keys;
}

// How many tiles lie below and beside each other.
struct Grid {
  std::int64_t down, across;
};

// The whole grid in one call, which costs a twentieth of a tile of 64 terms.
template <class T, Start start, int rows, int vectors>
HWY_NOINLINE void tiles(Grid grid, std::int64_t inner, const ProductOperands<T>& operands, const T* alpha) {
  using V = Vector<T>;
  ProductOperands<T> x = operands;  // a copy that stores to C cannot alias
  for (std::int64_t below = 0; below < grid.down; ++below) {
    for (std::int64_t first = 0; first < grid.across * vectors * V::lanes; first += vectors * V::lanes) {
      T* c = x.c + first;
      V sum[rows][vectors];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          if constexpr (start == Start::zero)
            sum[r][v] = V(T(0));
          else
            sum[r][v] = V::load(c + r * x.c_row + v * V::lanes);
          if constexpr (start == Start::rescale) sum[r][v] = sum[r][v] * V(alpha[r]);
        }
      const T* a = x.a;
      const T* b = x.b + column_of_b(first, x.b_panel);
      for (std::int64_t k = 0; k < inner; ++k, a += x.a_inner, b += x.b_row) {
        V of_b[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) of_b[v] = V::load(b + v * V::lanes);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          const V of_a(a[r * x.a_row]);
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sum[r][v] = V::fma(of_a, of_b[v], sum[r][v]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v].store(c + r * x.c_row + v * V::lanes);
    }
    x.a += rows * x.a_row;
    x.c += rows * x.c_row;
    if constexpr (start == Start::rescale) alpha += rows;
  }
}

template <class T>
using Tiles = void (*)(Grid, std::int64_t, const ProductOperands<T>&, const T*);

template <class T, Start start, int vectors>
constexpr std::array<Tiles<T>, tile_rows> tiles_by_rows = {tiles<T, start, 1, vectors>, tiles<T, start, 2, vectors>,
                                                           tiles<T, start, 3, vectors>, tiles<T, start, 4, vectors>,
                                                           tiles<T, start, 5, vectors>, tiles<T, start, 6, vectors>};

template <class T, Start start>
Tiles<T> tiles_of(int rows, int vectors) {
  if constexpr (tile_vectors == 4) {
    if (vectors == 4) return tiles_by_rows<T, start, 4>[rows - 1];
    if (vectors == 3) return tiles_by_rows<T, start, 3>[rows - 1];
  }
  return vectors == 2 ? tiles_by_rows<T, start, 2>[rows - 1] : tiles_by_rows<T, start, 1>[rows - 1];
}

// Rows of whole tiles, then those that are left; of each, columns of whole tiles, then those that are left.
template <class T, Start start>
void in_tiles(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& whole,
              const T* alpha) {
  const std::int64_t across = vectors / tile_vectors;
  const int left = static_cast<int>(vectors % tile_vectors);
  const auto multiply = [&](std::int64_t from, std::int64_t down, int height) {
    ProductOperands<T> part = whole;
    part.a += from * whole.a_row;
    part.c += from * whole.c_row;
    const T* of_rows = alpha ? alpha + from : nullptr;
    if (across > 0) tiles_of<T, start>(height, tile_vectors)({down, across}, inner, part, of_rows);
    if (left == 0) return;
    part.b += column_of_b(across * tile_vectors * Vector<T>::lanes, whole.b_panel);
    part.c += across * tile_vectors * Vector<T>::lanes;
    tiles_of<T, start>(height, left)({down, 1}, inner, part, of_rows);
  };
  const std::int64_t down = rows / tile_rows;
  if (down > 0) multiply(0, down, tile_rows);
  if (down * tile_rows < rows) multiply(down * tile_rows, 1, static_cast<int>(rows - down * tile_rows));
}

}  // namespace

template <class T>
void product(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& operands) {
  in_tiles<T, Start::zero>(rows, vectors, inner, operands, nullptr);
}

template <class T>
void add_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner, const ProductOperands<T>& operands) {
  in_tiles<T, Start::add>(rows, vectors, inner, operands, nullptr);
}

template <class T>
void rescale_add_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                         const ProductOperands<T>& operands, const T* alpha) {
  in_tiles<T, Start::rescale>(rows, vectors, inner, operands, alpha);
}

#define COGWHEEL_PRODUCTS(T)                                                                         \
  template void product<T>(std::int64_t, std::int64_t, std::int64_t, const ProductOperands<T>&);     \
  template void add_product<T>(std::int64_t, std::int64_t, std::int64_t, const ProductOperands<T>&); \
  template void rescale_add_product<T>(std::int64_t, std::int64_t, std::int64_t, const ProductOperands<T>&, const T*);
COGWHEEL_PRODUCTS(float)
COGWHEEL_PRODUCTS(double)
#undef COGWHEEL_PRODUCTS

}  // namespace cogwheel::HWY_NAMESPACE
