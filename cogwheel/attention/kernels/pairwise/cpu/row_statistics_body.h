// The definitions of row_statistics.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// A row's scratch: a vector of partial sums for each of these, from `sink` on vectors that begin with one number: the
// weight of key 0, what differences are taken from and measured in, and counts.
enum Sum {
  absolute,
  negative,
  entropy,
  largest,
  index,
  first_power,  // of differences of those that are not 0
  second_power,
  third_power,
  fourth_power,
  sink,
  center,
  per_unit,
  positive,  // how many are above 0
  used       // how many are not 0
};

template <class T>
constexpr std::int64_t scratch = (used + 1) * Vector<T>::lanes;

// Of some numbers: how many, their mean, and Σ(x − mean)ᵏ for k = 2, 3, 4.
struct Moments {
  double count, mean, second, third, fourth;
};

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
  for (const Sum each : {sink, center}) {
    T* const number = row + each * V::lanes;
    *number = alpha == T(0) ? T(0) : alpha * *number;
  }
  const V a = V::load(row + absolute * V::lanes), e = V::load(row + entropy * V::lanes), factor(alpha);
  // Σ α|f| log(α|f|) = α (Σ|f| log|f| + log α · Σ|f|)
  const V shrunk = alpha == T(0) ? V(T(0)) : factor * V::fma(V(std::log(alpha)), a, e);
  shrunk.store(row + entropy * V::lanes);
  for (const Sum each : {absolute, negative, largest})
    (factor * V::load(row + each * V::lanes)).store(row + each * V::lanes);
  V power = factor;
  for (const Sum each : {first_power, second_power, third_power, fourth_power}) {
    (power * V::load(row + each * V::lanes)).store(row + each * V::lanes);
    power = power * factor;
  }
}

// Differences are taken from a mean of some of the row's first weights: powers of the weights themselves would cancel
// where these are nearly equal, as at the start of training. They are measured in a unit whose fourth power, and
// theirs, is representable: 1 where no weight exceeds it.
template <bool at_most_1, class T>
void choose_center(const T* weights, std::int64_t first, std::int64_t last, T* row) {
  using V = Vector<T>;
  V sum(T(0)), most(T(0));
  std::size_t count = 0;
  for (std::int64_t x = first; x < last && !(at_most_1 && count > 0); x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    sum = sum + weight;
    count += hn::CountTrue(typename V::Tag(), size > V(T(0)));
    most = V::max(most, size);
  }
  const T largest_here = most.maximum();
  if (!(largest_here >= std::numeric_limits<T>::min())) return;
  row[center * V::lanes] = sum.sum() / static_cast<T>(count);
  row[per_unit * V::lanes] = at_most_1 ? T(1) : T(1) / largest_here;
}

template <bool at_most_1, bool argmax, class T>
void add_row(const T* weights, std::int64_t first_key, std::int64_t first, std::int64_t last, T* row) {
  using V = Vector<T>;
  const typename V::Tag tag;
  if (row[per_unit * V::lanes] == T(0)) choose_center<at_most_1>(weights, first, last, row);
  const V zero(T(0)), scale(row[per_unit * V::lanes]), minus_center(-row[center * V::lanes] * row[per_unit * V::lanes]);
  const auto at = [row](Sum which) HWY_ATTR { return row + which * V::lanes; };
  V a = V::load(at(absolute)), e = V::load(at(entropy)), l = V::load(at(largest)), i = V::load(at(index)),
    d1 = V::load(at(first_power)), d2 = V::load(at(second_power)), d3 = V::load(at(third_power)),
    d4 = V::load(at(fourth_power)), least = zero;
  V key = V(hn::Iota(tag, static_cast<T>(first_key + first)));
  std::size_t is_used = 0, is_positive = 0;
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    a = a + size;
    least = V::min(weight, least);
    e = e + times_log<T>(size);
    if constexpr (argmax) {
      const auto larger = size > l;
      i = V::select(larger, key, i);
      key = key + V(T(V::lanes));
    }
    l = V::max(l, size);
    const auto not_0 = size > zero;
    is_used += hn::CountTrue(tag, not_0);
    const V d = V::select_or_zero(not_0, V::fma(weight, scale, minus_center)), square = d * d;
    d1 = d1 + d;
    d2 = d2 + square;
    d3 = V::fma(square, d, d3);
    d4 = V::fma(square, square, d4);
  }
  a.store(at(absolute));
  e.store(at(entropy));
  l.store(at(largest));
  i.store(at(index));
  d1.store(at(first_power));
  d2.store(at(second_power));
  d3.store(at(third_power));
  d4.store(at(fourth_power));
  // Most mechanisms have no negative weights.
  if (hn::AllFalse(tag, least < zero)) {
    is_positive = is_used;
  } else {
    V n = V::load(at(negative));
    for (std::int64_t x = first; x < last; x += V::lanes) {
      const V weight = V::load(weights + x);
      n = n - V::min(zero, weight);
      is_positive += hn::CountTrue(tag, weight > zero);
    }
    n.store(at(negative));
  }
  *at(used) += static_cast<T>(is_used);
  *at(positive) += static_cast<T>(is_positive);
}

// Of all keys that the query sees: those without weight are 0. NaN where the weights differ by no more than rounding.
template <class T>
T kurtosis_of(const T* row, double keys, T largest_weight) {
  using V = Vector<T>;
  const auto sum_of = [row](Sum which) HWY_ATTR { return static_cast<double>(V::load(row + which * V::lanes).sum()); };
  const double n = static_cast<double>(row[used * V::lanes]), scale = static_cast<double>(row[per_unit * V::lanes]),
               s1 = sum_of(first_power), s2 = sum_of(second_power), s3 = sum_of(third_power), s4 = sum_of(fourth_power),
               e = n > 0 ? s1 / n : 0;
  const Moments of_used{.count = n,
                        .mean = static_cast<double>(row[center * V::lanes]) * scale + e,
                        .second = s2 - e * s1,
                        .third = s3 - 3 * e * s2 + 2 * e * e * s1,
                        .fourth = s4 - 4 * e * s3 + 6 * e * e * s2 - 3 * e * e * e * s1};
  const Moments all = together(of_used, {.count = keys - n, .mean = 0, .second = 0, .third = 0, .fourth = 0});
  const double variance = all.second / keys,
               rounding = 8 * std::numeric_limits<T>::epsilon() * static_cast<double>(largest_weight) * scale;
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
    const auto add = [&]<bool at_most_1>(std::bool_constant<at_most_1>) {
      if (argmax)
        add_row<at_most_1, true>(weights, tile.first_key, tile.first, tile.last, row);
      else
        add_row<at_most_1, false>(weights, tile.first_key, tile.first, tile.last, row);
    };
    // Relative to the largest exponent so far, no weight is above 1.
    if (alpha)
      add(std::true_type());
    else
      add(std::false_type());
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
    T above = row[positive * V::lanes], below = row[used * V::lanes] - above;
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
    to.at(To::kurtosis_at, row_index) = kurtosis_of(row, static_cast<double>(keys), maximum);
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
