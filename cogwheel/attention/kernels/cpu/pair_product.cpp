// Includes nothing that other units share inline: this one is compiled for instructions that a machine may lack.
#include "cogwheel/attention/kernels/cpu/pair_product.h"

#include <immintrin.h>

namespace cogwheel {
namespace {

constexpr int tile_rows = 6, tile_vectors = 4, lanes = 16;

__m512bh as_pairs(__m512 bits) { return (__m512bh)bits; }  // NOLINT: the only way between the two types

template <int rows, int vectors>
void tile(std::int64_t pairs, const PairOperands& x) {
  __m512 sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = x.add ? _mm512_loadu_ps(x.c + r * x.c_row + v * lanes) : _mm512_setzero_ps();
  const float *a = x.a, *b = x.b;
  for (std::int64_t k = 0; k < pairs; ++k, a += x.a_pair, b += x.b_row) {
    __m512bh of_b[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of_b[v] = as_pairs(_mm512_loadu_ps(b + v * lanes));
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512bh of_a = as_pairs(_mm512_set1_ps(a[r * x.a_row]));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], of_a, of_b[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(x.c + r * x.c_row + v * lanes, sum[r][v]);
}

using Tile = void (*)(std::int64_t, const PairOperands&);

template <int vectors>
constexpr Tile by_rows[tile_rows] = {tile<1, vectors>, tile<2, vectors>, tile<3, vectors>,
                                     tile<4, vectors>, tile<5, vectors>, tile<6, vectors>};
constexpr const Tile* tiles[tile_vectors] = {by_rows<1>, by_rows<2>, by_rows<3>, by_rows<4>};

}  // namespace

void pair_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands) {
  for (std::int64_t v = 0; v < vectors; v += tile_vectors) {
    const std::int64_t wide = vectors - v < tile_vectors ? vectors - v : tile_vectors;
    for (std::int64_t r = 0; r < rows; r += tile_rows) {
      const std::int64_t high = rows - r < tile_rows ? rows - r : tile_rows;
      tiles[wide - 1][high - 1](
          pairs, {operands.a + r * operands.a_row, operands.a_row, operands.b + v * lanes, operands.b_row,
                  operands.c + r * operands.c_row + v * lanes, operands.c_row, operands.add, operands.a_pair});
    }
  }
}

}  // namespace cogwheel
