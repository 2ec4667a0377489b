// Products of bfloat16 pairs by AMX: tiles of 16 rows by 64 bytes, two by two of C for two of A and two of B.
//
// B lies as pair_product.h wants it, pair k of 16 columns in a row, which is the order that AMX calls VNNI: tiles of A
// and B are loaded from where they lie. Where rows or pairs end within a tile, smaller tiles are configured, so that
// nothing beyond the operands is read or written.
//
// Order of additions, by the instruction's definition: 16 pairs at a time, from 0, one chain over their lower elements
// and one over their upper ones, in the order of the pairs; then lower plus upper, and that to the element of C.
// Nothing depends on where in a tile an element is, so that a score is the same bit for bit in forward and backward; it
// differs from that of pair_product(). Products are exact in float, sums rounded to nearest, subnormal numbers
// count as 0.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/cpu/pair_product.h"

namespace cogwheel {

// Whether the processor has AMX-TILE and AMX-BF16, the operating system saves tiles, and lets this process use them
// (Linux: asked for once).
bool machine_has_amx();

// As pair_product(), only where machine_has_amx(). Leaves tiles configured on this thread: release_amx() before any
// code runs on it that is not the engine's.
void amx_product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& operands);
void release_amx();

// The sizes of the tiles of one pass: rows of the upper and of the lower tiles of A and C, and pairs in a row of A,
// which are the rows of B.
struct TileShape {
  std::int64_t upper = 0, lower = 0, pairs = 0;  // each ≤ 16; lower = 0: no such tiles

  bool operator==(const TileShape&) const = default;
};

// The blocking, over the instructions: Tiles::configure(shape), and for tiles by number load<tile>(from, row stride),
// store<tile>(to, row stride), zero<tile>() and multiply<c, a, b>(). Tiles 0 to 3 are C, 4 and 5 A, 6 and 7 B.
template <class Tiles>
class AmxBlocks {
  static constexpr std::int64_t side = 16;
  static_assert(side <= PairProduct::chain_pairs && PairProduct::chain_pairs % side == 0);

 public:
  static void product(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const PairOperands& x) {
    const std::int64_t whole = pairs / side * side;
    if (whole > 0 || pairs == 0) pass(rows, vectors, {.pairs = side}, whole / side, x);
    if (whole < pairs)
      pass(rows, vectors, {.pairs = pairs - whole}, 1,
           {.a = x.a + whole,
            .a_row = x.a_row,
            .b = x.b + whole * x.b_row,
            .b_row = x.b_row,
            .c = x.c,
            .c_row = x.c_row,
            .add = x.add || whole > 0,
            .b_panel = x.b_panel});
  }

 private:
  // `steps` times shape.pairs pairs.
  static void pass(std::int64_t rows, std::int64_t vectors, TileShape shape, std::int64_t steps,
                   const PairOperands& x) {
    for (std::int64_t r = 0; r < rows; r += 2 * side) {
      shape.upper = rows - r < side ? rows - r : side;
      shape.lower = rows - r <= side ? 0 : rows - r < 2 * side ? rows - r - side : side;
      Tiles::configure(shape);
      for (std::int64_t v = 0; v < vectors; v += 2) {
        const PairOperands block{.a = x.a + r * x.a_row,
                                 .a_row = x.a_row,
                                 .b = x.b_column(v * side),
                                 .b_row = x.b_row,
                                 .c = x.c + r * x.c_row + v * side,
                                 .c_row = x.c_row,
                                 .add = x.add};
        const bool two_vectors = v + 1 < vectors;
        if (shape.lower > 0)
          two_vectors ? multiply<true, true>(steps, block) : multiply<true, false>(steps, block);
        else
          two_vectors ? multiply<false, true>(steps, block) : multiply<false, false>(steps, block);
      }
    }
  }

  template <bool lower, bool right>
  static void multiply(std::int64_t steps, const PairOperands& x) {
    float* const below = x.c + side * x.c_row;
    if (x.add) {
      Tiles::template load<0>(x.c, x.c_row);
      if constexpr (right) Tiles::template load<1>(x.c + side, x.c_row);
      if constexpr (lower) Tiles::template load<2>(below, x.c_row);
      if constexpr (lower && right) Tiles::template load<3>(below + side, x.c_row);
    } else {
      Tiles::template zero<0>();
      if constexpr (right) Tiles::template zero<1>();
      if constexpr (lower) Tiles::template zero<2>();
      if constexpr (lower && right) Tiles::template zero<3>();
    }
    const float *a = x.a, *b = x.b;
    for (std::int64_t step = 0; step < steps; ++step, a += side, b += side * x.b_row) {
      Tiles::template load<4>(a, x.a_row);
      Tiles::template load<6>(b, x.b_row);
      Tiles::template multiply<0, 4, 6>();
      if constexpr (right) {
        Tiles::template load<7>(b + side, x.b_row);
        Tiles::template multiply<1, 4, 7>();
      }
      if constexpr (lower) {
        Tiles::template load<5>(a + side * x.a_row, x.a_row);
        Tiles::template multiply<2, 5, 6>();
        if constexpr (right) Tiles::template multiply<3, 5, 7>();
      }
    }
    Tiles::template store<0>(x.c, x.c_row);
    if constexpr (right) Tiles::template store<1>(x.c + side, x.c_row);
    if constexpr (lower) Tiles::template store<2>(below, x.c_row);
    if constexpr (lower && right) Tiles::template store<3>(below + side, x.c_row);
  }
};

}  // namespace cogwheel
