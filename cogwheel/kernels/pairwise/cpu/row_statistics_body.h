// The definitions of row_statistics.h, read once per instruction set.
#pragma once
#include "cogwheel/kernels/cpu/vector.h"
#include "cogwheel/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// A row's scratch: a vector of partial sums for each of these, one that begins with the weight of key 0, and the
// moments.
enum Sum { absolute, negative, entropy, largest, index, positive, sink };

// Of the weights that are not 0: how many, their mean, and Σ(f − mean)ᵏ for k = 2, 3, 4. In double, so that tiles can
// be put together about a common mean; within a tile, differences from its own mean lose nothing.
struct Moments {
  double count, mean, second, third, fourth;
};

template <class T>
constexpr std::int64_t moments_at = (sink + 1) * Vector<T>::lanes;
template <class T>
constexpr std::int64_t scratch = moments_at<T> +
                                 (static_cast<std::int64_t>(sizeof(Moments) / sizeof(T)) + Vector<T>::lanes - 1) /
                                     Vector<T>::lanes* Vector<T>::lanes;

template <class T>
Moments moments_of(const T* row) {
  Moments moments;
  std::memcpy(&moments, row + moments_at<T>, sizeof moments);
  return moments;
}

template <class T>
void keep_moments(const Moments& moments, T* row) {
  std::memcpy(row + moments_at<T>, &moments, sizeof moments);
}

// Both together, about their common mean.
HWY_INLINE Moments together(const Moments& one, const Moments& other) {
  const double count = one.count + other.count;
  if (count == 0) return one;
  Moments all{.count = count,
              .mean = one.mean + (other.mean - one.mean) * (other.count / count),
              .second = 0,
              .third = 0,
              .fourth = 0};
  for (const Moments* part : {&one, &other}) {
    const double e = part->mean - all.mean, e2 = e * e;
    all.second += part->second + part->count * e2;
    all.third += part->third + 3 * e * part->second + part->count * e2 * e;
    all.fourth += part->fourth + 4 * e * part->third + 6 * e2 * part->second + part->count * e2 * e2;
  }
  return all;
}

HWY_INLINE Moments scaled(const Moments& of, double by) {
  const double square = by * by;
  return {.count = of.count,
          .mean = by * of.mean,
          .second = square * of.second,
          .third = square * by * of.third,
          .fourth = square * square * of.fourth};
}

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
  keep_moments(scaled(moments_of(row), static_cast<double>(alpha)), row);
}

template <bool argmax, class T>
void add_row(const T* weights, std::int64_t first_key, std::int64_t first, std::int64_t last, T* row) {
  using V = Vector<T>;
  const V zero(T(0)), one(T(1));
  V a = zero, n = zero, used = zero, largest_here = zero, l = V::load(row + largest * V::lanes),
    i = V::load(row + index * V::lanes), p = V::load(row + positive * V::lanes);
  V key = V(hn::Iota(typename V::Tag(), static_cast<T>(first_key + first)));
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    a = a + size;
    n = n - V::min(zero, weight);
    used = used + V::select_or_zero(size > zero, one);
    p = p + V::select_or_zero(weight > zero, one);
    if constexpr (argmax) {
      const auto larger = size > l;
      i = V::select(larger, key, i);
      key = key + V(T(V::lanes));
    }
    l = V::max(l, size);
    largest_here = V::max(largest_here, size);
  }
  l.store(row + largest * V::lanes);
  i.store(row + index * V::lanes);
  p.store(row + positive * V::lanes);
  (V::load(row + absolute * V::lanes) + a).store(row + absolute * V::lanes);
  (V::load(row + negative * V::lanes) + n).store(row + negative * V::lanes);
  const T count = used.sum();
  if (count == T(0)) return;

  // In units of the largest weight, whose fourth power need not be representable.
  const T unit = largest_here.maximum(), per_unit = unit < std::numeric_limits<T>::min() ? T(0) : T(1) / unit;
  const T mean = (a - n - n).sum() / count * per_unit;
  const V inverse(per_unit), minus_mean(-mean);
  V e = V::load(row + entropy * V::lanes), second = zero, third = zero, fourth = zero;
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    e = e + times_log<T>(size);
    const V d = V::select_or_zero(size > zero, V::fma(weight, inverse, minus_mean)), square = d * d;
    second = second + square;
    third = V::fma(square, d, third);
    fourth = V::fma(square, square, fourth);
  }
  e.store(row + entropy * V::lanes);
  const Moments here = scaled({.count = static_cast<double>(count),
                               .mean = static_cast<double>(mean),
                               .second = static_cast<double>(second.sum()),
                               .third = static_cast<double>(third.sum()),
                               .fourth = static_cast<double>(fourth.sum())},
                              static_cast<double>(unit));
  keep_moments(together(moments_of(row), here), row);
}

// Of all keys that the query sees: those without weight are 0. NaN where the weights differ by no more than rounding.
template <class T>
T kurtosis_of(const Moments& of_used, double keys, T largest_weight) {
  const Moments all =
      together(of_used, {.count = keys - of_used.count, .mean = 0, .second = 0, .third = 0, .fourth = 0});
  const double variance = all.second / keys, rounding = 8 * std::numeric_limits<T>::epsilon() * largest_weight;
  if (!(variance > rounding * rounding)) return std::numeric_limits<T>::quiet_NaN();
  return static_cast<T>(all.fourth / keys / (variance * variance));
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
void store_statistics(std::int64_t rows, const T* sums_of_rows, const RowsOfWeights<T>& of, const RowStatistics<T>& to,
                      std::int64_t place) {
  using V = Vector<T>;
  using To = RowStatistics<T>;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = sums_of_rows + r * scratch<T>;
    const auto sum_of = [&](Sum which) { return V::load(row + which * V::lanes).sum(); };
    const T a = sum_of(absolute), n = sum_of(negative), e = sum_of(entropy);
    const T maximum = V::load(row + largest * V::lanes).maximum();
    const T scale = T(1) / of.normalizer[r], size = std::abs(scale), keys = of.keys[r];
    const Moments moments = moments_of(row);
    T above = sum_of(positive), below = static_cast<T>(moments.count) - above;
    if (scale < T(0)) std::swap(above, below);
    const T share = keys > T(0) ? T(1) / keys : T(0);
    const std::int64_t row_index = place + r;
    to.at(To::log_mass_at, row_index) =
        a == T(0) ? -std::numeric_limits<T>::infinity() : std::log(a) + (of.shift ? of.shift[r] : T(0));
    to.at(To::sum_at, row_index) = (a - 2 * n) * scale;
    to.at(To::abs_sum_at, row_index) = a * size;
    to.at(To::negative_mass_at, row_index) = (scale < T(0) ? a - n : n) * size;
    to.at(To::entropy_at, row_index) = a == T(0) ? T(0) : std::log(a) - e / a;
    to.at(To::sink_at, row_index) = row[sink * V::lanes] * scale;
    to.at(To::largest_at, row_index) = maximum * size;
    to.at(To::keys_at, row_index) = keys;
    to.at(To::positive_at, row_index) = above * share;
    to.at(To::negative_at, row_index) = below * share;
    to.at(To::kurtosis_at, row_index) = kurtosis_of<T>(moments, static_cast<double>(keys), maximum);
    if (to.argmax_wanted)
      to.at(To::argmax_at, row_index) = first_of_largest(row + largest * V::lanes, row + index * V::lanes, maximum);
  }
}

#define COGWHEEL_INSTANTIATE(T)                                                                            \
  template std::int64_t statistics_scratch<T>();                                                           \
  template void clear_statistics(std::int64_t, T*);                                                        \
  template void add_weights(const WeightTile<T>&, const T*, bool, T*);                                     \
  template void store_statistics(std::int64_t, const T*, const RowsOfWeights<T>&, const RowStatistics<T>&, \
                                 std::int64_t);
COGWHEEL_INSTANTIATE(float)
COGWHEEL_INSTANTIATE(double)
#undef COGWHEEL_INSTANTIATE

}  // namespace cogwheel::HWY_NAMESPACE
