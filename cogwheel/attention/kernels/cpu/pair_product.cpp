// Includes nothing that other units share inline: this one is compiled for instructions that a machine may lack.
#include "cogwheel/attention/kernels/cpu/pair_product.h"

#include <immintrin.h>

namespace cogwheel {
namespace {

constexpr int tile_rows = 6, tile_vectors = 4, lanes = 16;

__m512bh as_pairs(__m512 bits) { return (__m512bh)bits; }  // NOLINT: the only way between the two types

// A grid of tiles, so many below and beside each other.
template <int rows, int vectors, bool streamed>
void multiply(std::int64_t down, std::int64_t across, std::int64_t pairs, const PairOperands& operands) {
  PairOperands x = operands;  // a copy that stores to C cannot alias
  for (std::int64_t below = 0; below < down; ++below, x.a += rows * x.a_row, x.c += rows * x.c_row)
    for (std::int64_t first = 0; first < across * vectors * lanes; first += vectors * lanes) {
      float* const c = x.c + first;
      __m512 sum[rows][vectors];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
          sum[r][v] = x.add ? _mm512_loadu_ps(c + r * x.c_row + v * lanes) : _mm512_setzero_ps();
      const float *a = x.a, *b = x.b_column(first);
      for (std::int64_t k = 0; k < pairs; ++k, a += x.a_pair, b += x.b_row) {
        // Every other line: the processor adds the one beside it, and the other half of the requests would be in the
        // way of loads (docs/performance.md, Decoding).
        if constexpr (streamed)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; v += 2)
            __builtin_prefetch(reinterpret_cast<const char*>(b + v * lanes) + stream_distance, 0, 2);
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
        for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(c + r * x.c_row + v * lanes, sum[r][v]);
    }
}

using Tiles = void (*)(std::int64_t, std::int64_t, std::int64_t, const PairOperands&);

template <int vectors, bool streamed>
constexpr Tiles by_rows[tile_rows] = {multiply<1, vectors, streamed>, multiply<2, vectors, streamed>,
                                      multiply<3, vectors, streamed>, multiply<4, vectors, streamed>,
                                      multiply<5, vectors, streamed>, multiply<6, vectors, streamed>};
template <bool streamed>
constexpr const Tiles* by_vectors[tile_vectors] = {by_rows<1, streamed>, by_rows<2, streamed>, by_rows<3, streamed>,
                                                   by_rows<4, streamed>};

}  // namespace

void pair_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands) {
  const auto& tiles = operands.streamed ? by_vectors<true> : by_vectors<false>;
  const std::int64_t across = vectors / tile_vectors, left = vectors % tile_vectors;
  const auto of_rows = [&](std::int64_t from, std::int64_t down, std::int64_t height) {
    PairOperands part = operands;
    part.a += from * operands.a_row;
    part.c += from * operands.c_row;
    if (across > 0) tiles[tile_vectors - 1][height - 1](down, across, pairs, part);
    if (left == 0) return;
    part.b = operands.b_column(across * tile_vectors * lanes);
    part.c += across * tile_vectors * lanes;
    tiles[left - 1][height - 1](down, 1, pairs, part);
  };
  const std::int64_t down = rows / tile_rows;
  if (down > 0) of_rows(0, down, tile_rows);
  if (down * tile_rows < rows) of_rows(down * tile_rows, 1, rows - down * tile_rows);
}

}  // namespace cogwheel
