// The definitions of row_statistics.h, read once per instruction set.
#pragma once
#include "cogwheel/kernels/cpu/vector.h"
#include "cogwheel/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// A row's scratch: a vector of partial sums for each of these, then one that begins with the weight of key 0.
enum Sum { absolute, negative, entropy, largest, index, sink };

template <class T>
constexpr std::int64_t scratch = (sink + 1) * Vector<T>::lanes;

// x log x for x ≥ 0; 0 at 0.
//
// For float, x = 2^e (1 + r) with 1 + r in [√½, √2) and log(1 + r) = r − r²/2 + r³ (c0 + … + c5 r⁵), coefficients by
// least squares reweighted towards the minimax: off by at most 6.5e-8. Its scale is that of an entropy, which is 0 to
// log n, so an absolute bound is what counts. Bits of 0 and of denormal numbers give some finite logarithm, times x.
template <class T>
HWY_INLINE Vector<T> times_log(Vector<T> x) {
  using V = Vector<T>;
  if constexpr (sizeof(T) == 8) {
    return V::select(x.raw > V(T(0)), V(hn::Mul(x.raw, hn::Log(typename V::Tag(), x.raw))), x);
  } else {
    const typename V::Tag d;
    const hn::RebindToSigned<typename V::Tag> integers;
    const auto root_half = hn::Set(integers, 0x3f3504f3);
    const auto bits = hn::Sub(hn::BitCast(integers, x.raw), root_half);
    const V exponent = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
    const auto fraction = hn::And(bits, hn::Set(integers, 0x007fffff));
    const V r = hn::Sub(hn::BitCast(d, hn::Add(fraction, root_half)), hn::Set(d, 1.0f));
    V p = V::fma(V(-0.10224201f), r, V(0.16141176f));
    p = V::fma(p, r, V(-0.17166907f));
    p = V::fma(p, r, V(0.19910239f));
    p = V::fma(p, r, V(-0.24980573f));
    p = V::fma(p, r, V(0.33334690f));
    p = V::fma(p, r, V(-0.5f));
    const V log = V::fma(exponent, V(0.69314718f), V::fma(p, r * r, r));
    return x * log;
  }
}

template <class T>
void shrink(T alpha, T* row) {
  using V = Vector<T>;
  T* const key_0 = row + sink * V::lanes;
  *key_0 = alpha == T(0) ? T(0) : alpha * *key_0;
  const V a = V::load(row + absolute * V::lanes), e = V::load(row + entropy * V::lanes), factor(alpha);
  // Σ α|f| log(α|f|) = α (Σ|f| log|f| + log α · Σ|f|)
  const V shrunk = alpha == T(0) ? V(T(0)) : factor * V::fma(V(std::log(alpha)), a, e);
  shrunk.store(row + entropy * V::lanes);
  for (const Sum each : {absolute, negative, largest})
    (factor * V::load(row + each * V::lanes)).store(row + each * V::lanes);
}

template <bool argmax, class T>
void add_row(const T* weights, std::int64_t first_key, std::int64_t first, std::int64_t last, T* row) {
  using V = Vector<T>;
  const V zero(T(0));
  V a = V::load(row + absolute * V::lanes), n = V::load(row + negative * V::lanes),
    e = V::load(row + entropy * V::lanes), l = V::load(row + largest * V::lanes), i = V::load(row + index * V::lanes);
  V key = V(hn::Iota(typename V::Tag(), static_cast<T>(first_key + first)));
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    a = a + size;
    n = n - V::min(zero, weight);
    e = e + times_log<T>(size);
    if constexpr (argmax) {
      const auto larger = size > l;
      i = V::select(larger, key, i);
      key = key + V(T(V::lanes));
    }
    l = V::max(l, size);
  }
  a.store(row + absolute * V::lanes);
  n.store(row + negative * V::lanes);
  e.store(row + entropy * V::lanes);
  l.store(row + largest * V::lanes);
  i.store(row + index * V::lanes);
}

// The first key whose |weight| is the largest of all lanes; −1 where all are 0.
template <class T>
T first_of_largest(const T* largest_of, const T* index_of, T maximum) {
  T key = -1;
  if (!(maximum > 0)) return key;
  for (int lane = 0; lane < Vector<T>::lanes; ++lane)
    if (largest_of[lane] == maximum && (key < 0 || index_of[lane] < key)) key = index_of[lane];
  return key;
}

}  // namespace

template <class T>
std::int64_t statistics_scratch() {
  return scratch<T>;
}

template <class T>
void clear_statistics(std::int64_t rows, T* sums_of_rows) {
  std::fill_n(sums_of_rows, rows * scratch<T>, T(0));
}

template <class T>
void add_weights(const WeightTile<T>& tile, const T* alpha, bool argmax, T* sums_of_rows) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    T* row = sums_of_rows + r * scratch<T>;
    const T* weights = tile.weights + r * tile.stride;
    if (alpha && alpha[r] != T(1)) shrink(alpha[r], row);
    if (tile.first_key == 0 && tile.first == 0) row[sink * Vector<T>::lanes] = weights[0];
    if (argmax)
      add_row<true>(weights, tile.first_key, tile.first, tile.last, row);
    else
      add_row<false>(weights, tile.first_key, tile.first, tile.last, row);
  }
}

template <class T>
void store_statistics(std::int64_t rows, const T* sums_of_rows, const T* normalizer, const T* shift,
                      const RowStatistics<T>& to, std::int64_t place) {
  using V = Vector<T>;
  using To = RowStatistics<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = sums_of_rows + r * scratch<T>;
    const auto sum_of = [&](Sum which) { return V::load(row + which * V::lanes).sum(); };
    const T a = sum_of(absolute), n = sum_of(negative), e = sum_of(entropy);
    const T maximum = V::load(row + largest * V::lanes).maximum();
    const T scale = T(1) / normalizer[r], size = std::abs(scale);
    const std::int64_t row_index = place + r;
    to.at(To::log_mass_at, row_index) =
        a == T(0) ? -std::numeric_limits<T>::infinity() : std::log(a) + (shift ? shift[r] : T(0));
    to.at(To::sum_at, row_index) = (a - 2 * n) * scale;
    to.at(To::abs_sum_at, row_index) = a * size;
    to.at(To::negative_mass_at, row_index) = (scale < T(0) ? a - n : n) * size;
    to.at(To::entropy_at, row_index) = a == T(0) ? T(0) : std::log(a) - e / a;
    to.at(To::sink_at, row_index) = row[sink * V::lanes] * scale;
    to.at(To::largest_at, row_index) = maximum * size;
    if (to.argmax_wanted)
      to.at(To::argmax_at, row_index) = first_of_largest(row + largest * V::lanes, row + index * V::lanes, maximum);
  }
}

#define COGWHEEL_INSTANTIATE(T)                                        \
  template std::int64_t statistics_scratch<T>();                       \
  template void clear_statistics(std::int64_t, T*);                    \
  template void add_weights(const WeightTile<T>&, const T*, bool, T*); \
  template void store_statistics(std::int64_t, const T*, const T*, const T*, const RowStatistics<T>&, std::int64_t);
COGWHEEL_INSTANTIATE(float)
COGWHEEL_INSTANTIATE(double)
#undef COGWHEEL_INSTANTIATE

}  // namespace cogwheel::HWY_NAMESPACE
