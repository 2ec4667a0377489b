// The tiles of amx_product.h in plain C++, by the definition of the instructions.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "cogwheel/attention/kernels/cpu/amx_product.h"
#include "cogwheel/core/bfloat16.h"

namespace cogwheel {

// The elements of a pair.
inline float lower(float pair) {
  return float_of_bfloat16(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(pair)));
}
inline float upper(float pair) {
  return float_of_bfloat16(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(pair) >> 16));
}

struct EmulatedTile {
  std::int64_t rows = 0, columns = 0;  // of floats or pairs
  float at[16][16] = {};
};

// Eight tiles, and the instructions by their definition.
struct EmulatedTiles {
  static inline EmulatedTile tiles[8];

  static void configure(const TileShape& shape) {
    for (EmulatedTile& tile : tiles) tile = {};
    for (const std::int64_t size : {shape.upper, shape.lower, shape.pairs}) ASSERT_TRUE(size >= 0 && size <= 16);
    const auto set = [](EmulatedTile& tile, std::int64_t rows, std::int64_t columns) {
      tile.rows = rows;
      tile.columns = rows > 0 ? columns : 0;
    };
    for (int right = 0; right < 2; ++right) {
      set(tiles[right], shape.upper, 16);
      set(tiles[2 + right], shape.lower, 16);
      set(tiles[6 + right], shape.pairs, 16);
    }
    set(tiles[4], shape.upper, shape.pairs);
    set(tiles[5], shape.lower, shape.pairs);
  }
  template <int tile>
  static void load(const float* from, std::int64_t row) {
    ASSERT_GT(tiles[tile].rows, 0);
    for (std::int64_t r = 0; r < tiles[tile].rows; ++r)
      for (std::int64_t x = 0; x < tiles[tile].columns; ++x) tiles[tile].at[r][x] = from[r * row + x];
  }
  template <int tile>
  static void store(float* to, std::int64_t row) {
    ASSERT_GT(tiles[tile].rows, 0);
    for (std::int64_t r = 0; r < tiles[tile].rows; ++r)
      for (std::int64_t x = 0; x < tiles[tile].columns; ++x) to[r * row + x] = tiles[tile].at[r][x];
  }
  template <int tile>
  static void zero() {
    for (auto& row : tiles[tile].at)
      for (float& element : row) element = 0;
  }
  template <int c, int a, int b>
  static void multiply() {
    ASSERT_TRUE(tiles[c].rows == tiles[a].rows && tiles[a].columns == tiles[b].rows &&
                tiles[c].columns == tiles[b].columns && tiles[c].rows > 0);
    for (std::int64_t r = 0; r < tiles[c].rows; ++r)
      for (std::int64_t x = 0; x < tiles[c].columns; ++x) {
        float of_lower = 0, of_upper = 0;
        for (std::int64_t k = 0; k < tiles[a].columns; ++k) {
          of_lower = std::fma(lower(tiles[a].at[r][k]), lower(tiles[b].at[k][x]), of_lower);
          of_upper = std::fma(upper(tiles[a].at[r][k]), upper(tiles[b].at[k][x]), of_upper);
        }
        tiles[c].at[r][x] += of_lower + of_upper;
      }
  }
};

}  // namespace cogwheel
