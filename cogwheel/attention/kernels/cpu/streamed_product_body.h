// The definitions of streamed_product.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/bfloat16_lanes.h"
#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/cpu/streamed_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

constexpr int streamed_rows = 6;

// So that accumulators, one register of B and one of A fit into 32 registers, or 16.
constexpr int streamed_vectors(int rows) {
  constexpr bool many_registers = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
  if (rows == 1) return 8;
  if (rows <= 3) return many_registers ? 8 : 4;
  return many_registers ? 4 : 2;
}

template <class T>
HWY_INLINE Vector<T> streamed_load(const T* from) {
  return Vector<T>::load(from);
}
HWY_INLINE Vector<float> streamed_load(const BFloat16* from) {
  return widened_bfloat16(reinterpret_cast<const std::uint16_t*>(from));
}

template <class T, class Element, int rows, int vectors>
HWY_NOINLINE void streamed_tile(std::int64_t inner, const StreamedOperands<T, Element>& x) {
  using V = Vector<T>;
  V sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = x.add ? V::load(x.c + r * x.c_row + v * V::lanes) : V(T(0));
      if (x.alpha) sum[r][v] = sum[r][v] * V(x.alpha[r]);
    }
  const T* a = x.a;
  const Element* b = x.b;
  for (std::int64_t k = 0; k < inner; ++k, ++a, b += x.b_row) {
    constexpr int bytes = vectors * V::lanes * static_cast<int>(sizeof(Element)), line = 64;
#pragma GCC unroll 8
    for (int at = 0; at < bytes; at += line)
      __builtin_prefetch(reinterpret_cast<const char*>(b) + stream_distance + at, 0, 2);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const V of_b = streamed_load(b + v * V::lanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) sum[r][v] = V::fma(V(a[r * x.a_row]), of_b, sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sum[r][v].store(x.c + r * x.c_row + v * V::lanes);
}

// Whole tiles, then what is left of the columns in tiles of half the width.
template <class T, class Element, int rows, int vectors>
void streamed_tiles(std::int64_t count, std::int64_t inner, StreamedOperands<T, Element> x) {
  for (; count >= vectors; count -= vectors) {
    streamed_tile<T, Element, rows, vectors>(inner, x);
    x.b += vectors * Vector<T>::lanes;
    x.c += vectors * Vector<T>::lanes;
  }
  if constexpr (vectors > 1)
    if (count > 0) streamed_tiles<T, Element, rows, vectors / 2>(count, inner, x);
}

template <class T, class Element, int rows = streamed_rows>
void streamed_group(std::int64_t count, std::int64_t vectors, std::int64_t inner,
                    const StreamedOperands<T, Element>& x) {
  if (count == rows) return streamed_tiles<T, Element, rows, streamed_vectors(rows)>(vectors, inner, x);
  if constexpr (rows > 1) streamed_group<T, Element, rows - 1>(count, vectors, inner, x);
}

}  // namespace

template <class T, class Element>
void streamed_product(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                      const StreamedOperands<T, Element>& operands) {
  StreamedOperands<T, Element> x = operands;
  for (std::int64_t done = 0; done < rows; done += streamed_rows) {
    streamed_group(std::min<std::int64_t>(streamed_rows, rows - done), vectors, inner, x);
    x.a += streamed_rows * x.a_row;
    x.c += streamed_rows * x.c_row;
    if (x.alpha) x.alpha += streamed_rows;
  }
}

#define COGWHEEL_STREAMED(T, Element) \
  template void streamed_product(std::int64_t, std::int64_t, std::int64_t, const StreamedOperands<T, Element>&);
COGWHEEL_STREAMED(float, float)
COGWHEEL_STREAMED(float, BFloat16)
COGWHEEL_STREAMED(double, double)
#undef COGWHEEL_STREAMED

}  // namespace cogwheel::HWY_NAMESPACE
