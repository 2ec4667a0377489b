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

// Two vectors of C and of B: one after the other.
template <class T, class Element>
struct TwoVectors {
  using V = Vector<T>;
  static HWY_INLINE void load_c(const T* from, V& first, V& second) {
    first = V::load(from);
    second = V::load(from + V::lanes);
  }
  static HWY_INLINE void store_c(V first, V second, T* to) {
    first.store(to);
    second.store(to + V::lanes);
  }
  static HWY_INLINE void load_b(const T* from, V& first, V& second) { load_c(from, first, second); }
};

// Every other element.
template <>
struct TwoVectors<float, BFloat16> {
  using V = Vector<float>;
  static HWY_INLINE void load_c(const float* from, V& first, V& second) {
    hn::LoadInterleaved2(V::Tag(), from, first.raw, second.raw);
  }
  static HWY_INLINE void store_c(V first, V second, float* to) {
    hn::StoreInterleaved2(first.raw, second.raw, V::Tag(), to);
  }
  static HWY_INLINE void load_b(const BFloat16* from, V& first, V& second) {
    widen_pairs_of(from, first.raw, second.raw);
  }
};

template <class T>
HWY_INLINE Vector<T> load_vector(const T* from) {
  return Vector<T>::load(from);
}
HWY_INLINE Vector<float> load_vector(const BFloat16* from) {
  return widened_bfloat16(reinterpret_cast<const std::uint16_t*>(from));
}

template <class T, class Element, int rows, int vectors>
HWY_NOINLINE void streamed_tile(std::int64_t inner, const StreamedOperands<T, Element>& x) {
  using V = Vector<T>;
  using Two = TwoVectors<T, Element>;
  constexpr bool of_pairs = std::is_same_v<Element, BFloat16Pair>;
  constexpr int step = vectors == 1 ? 1 : 2;
  V sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v += step) {
      const T* const c = x.c + r * x.c_row + v * V::lanes;
      const V factor(x.alpha ? x.alpha[r] : T(1));
      if constexpr (step == 1) {
        sum[r][v] = x.add ? V::load(c) * factor : V(T(0));
      } else {
        sum[r][v] = sum[r][v + 1] = V(T(0));
        if (!x.add) continue;
        Two::load_c(c, sum[r][v], sum[r][v + 1]);
        sum[r][v] = sum[r][v] * factor;
        sum[r][v + 1] = sum[r][v + 1] * factor;
      }
    }
  const T* a = x.a;
  const Element* b = x.b;
  for (std::int64_t k = 0; k < inner; ++k, a += of_pairs ? 2 : 1, b += x.b_row) {
    // Of bfloat16 every other line, as in pair_product.cpp.
    constexpr int bytes = vectors * V::lanes * static_cast<int>(sizeof(Element)),
                  line = std::is_same_v<Element, T> ? 64 : 128;
#pragma GCC unroll 8
    for (int at = 0; at < bytes; at += line)
      __builtin_prefetch(reinterpret_cast<const char*>(b) + stream_distance + at, 0, 2);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v += of_pairs ? 1 : step) {
      V first, second;
      if constexpr (of_pairs)
        widen_pairs_of(b + v * V::lanes, first.raw, second.raw);
      else if constexpr (step == 1)
        first = load_vector(b);
      else
        Two::load_b(b + v * V::lanes, first, second);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const T* const of_row = a + r * x.a_row;
        sum[r][v] = V::fma(V(of_row[0]), first, sum[r][v]);
        if constexpr (of_pairs)
          sum[r][v] = V::fma(V(of_row[1]), second, sum[r][v]);
        else if constexpr (step == 2)
          sum[r][v + 1] = V::fma(V(of_row[0]), second, sum[r][v + 1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v += step) {
      T* const c = x.c + r * x.c_row + v * V::lanes;
      if constexpr (step == 1)
        sum[r][v].store(c);
      else
        Two::store_c(sum[r][v], sum[r][v + 1], c);
    }
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
COGWHEEL_STREAMED(float, BFloat16Pair)
COGWHEEL_STREAMED(double, double)
#undef COGWHEEL_STREAMED

}  // namespace cogwheel::HWY_NAMESPACE
