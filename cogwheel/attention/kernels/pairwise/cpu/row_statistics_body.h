// The definitions of row_statistics.h, read once per instruction set.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/kernels/cpu/vector_sums.h"
#include "cogwheel/attention/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// A row's scratch: a vector of partial sums for each of these, then some numbers.
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
  sums
};
enum Number {
  sink,      // the weight of key 0
  center,    // what differences are taken from
  per_unit,  // and what they are multiplied with; 0 until it is chosen
  positive,  // how many are above 0
  used,      // how many are not 0
  numbers
};

template <class T>
constexpr std::int64_t numbers_at = sums* Vector<T>::lanes;

template <class T>
constexpr std::int64_t scratch = numbers_at<T> + (numbers + Vector<T>::lanes - 1) / Vector<T>::lanes* Vector<T>::lanes;

// sum + x log x for x ≥ 0; the sum at 0.
//
// For float, x = 2^e (1 + r) with 1 + r in [√½, √2) and log(1 + r) = r + r² (c0 + … + c5 r⁵), coefficients by least
// squares reweighted towards the minimax: off by at most 3e-7. Its scale is that of an entropy, which is 0 to log n, so
// an absolute bound is what counts. Bits of 0 and of denormal numbers give some finite logarithm, times x.
template <class T>
HWY_INLINE Vector<T> add_times_log(Vector<T> x, Vector<T> sum) {
  using V = Vector<T>;
  if constexpr (sizeof(T) == 8) {
    return sum + V::select(x > V(T(0)), V(hn::Mul(x.raw, hn::Log(typename V::Tag(), x.raw))), x);
  } else {
    const typename V::Tag d;
    const hn::RebindToSigned<typename V::Tag> integers;
    const auto root_half = hn::Set(integers, 0x3f3504f3);
    const auto bits = hn::Sub(hn::BitCast(integers, x.raw), root_half);
    const V exponent = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
    const auto fraction = hn::And(bits, hn::Set(integers, 0x007fffff));
    const V r = hn::Sub(hn::BitCast(d, hn::Add(fraction, root_half)), hn::Set(d, 1.0f));
    V p = V::fma(V(0.11986411f), r, V(-0.18761725f));
    p = V::fma(p, r, V(0.20492570f));
    p = V::fma(p, r, V(-0.24897765f));
    p = V::fma(p, r, V(0.33315545f));
    p = V::fma(p, r, V(-0.50001486f));
    return V::fma(x, V::fma(exponent, V(0.69314718f), V::fma(p, r * r, r)), sum);
  }
}

template <class T>
void shrink(T alpha, T* row) {
  using V = Vector<T>;
  for (const Number each : {sink, center}) {
    T& number = row[numbers_at<T> + each];
    number = alpha == T(0) ? T(0) : alpha * number;
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
void choose_center(const T* weights, std::int64_t first, std::int64_t last, T* row_numbers) {
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
  row_numbers[center] = sum.sum() / static_cast<T>(count);
  row_numbers[per_unit] = at_most_1 ? T(1) : T(1) / largest_here;
}

// Adds the weights [first, last) of a row to its sums. `entropy_of_tile`: null where it is summed here.
template <bool at_most_1, bool argmax, bool entropy_known, class T>
void add_row(const T* weights, const WeightTile<T>& tile, const T* entropy_of_tile, T* row) {
  using V = Vector<T>;
  const typename V::Tag tag;
  T* const number = row + numbers_at<T>;
  const std::int64_t first = tile.first, last = tile.last;
  if (tile.fresh) std::fill_n(number, numbers, T(0));
  if (tile.first_key + first == 0) number[sink] = weights[0];
  if (number[per_unit] == T(0)) choose_center<at_most_1>(weights, first, last, number);
  const V zero(T(0)), scale(number[per_unit]), minus_center(-number[center] * number[per_unit]);
  const auto at = [&](Sum which) HWY_ATTR { return tile.fresh ? zero : V::load(row + which * V::lanes); };
  V a = at(absolute), e = at(entropy), l = at(largest), i = argmax ? at(index) : zero, d1 = at(first_power),
    d2 = at(second_power), d3 = at(third_power), d4 = at(fourth_power), least = zero;
  if constexpr (entropy_known) e = e + V::load(entropy_of_tile);
  V key = V(hn::Iota(tag, static_cast<T>(tile.first_key + first)));
  std::size_t is_used = 0, is_positive = 0;
  for (std::int64_t x = first; x < last; x += V::lanes) {
    const V weight = V::load(weights + x), size = V::abs(weight);
    a = a + size;
    least = V::min(weight, least);
    if constexpr (!entropy_known) e = add_times_log<T>(size, e);
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
  V n = at(negative);
  // Most mechanisms have no negative weights.
  if (hn::AllFalse(tag, least < zero)) {
    is_positive = is_used;
  } else {
    for (std::int64_t x = first; x < last; x += V::lanes) {
      const V weight = V::load(weights + x);
      n = n - V::min(zero, weight);
      is_positive += hn::CountTrue(tag, weight > zero);
    }
  }
  const auto keep = [row](Sum which, V sum) HWY_ATTR { sum.store(row + which * V::lanes); };
  keep(absolute, a), keep(negative, n), keep(entropy, e), keep(largest, l);
  if constexpr (argmax) keep(index, i);
  keep(first_power, d1), keep(second_power, d2), keep(third_power, d3), keep(fourth_power, d4);
  number[used] += static_cast<T>(is_used);
  number[positive] += static_cast<T>(is_positive);
}

// What the kurtosis of rows follows from, a row a lane.
template <class V>
struct Powers {
  V used, center, per_unit, s1, s2, s3, s4;  // sums of powers of the differences of those that are used
  V keys, largest_weight;
};

// Of some numbers: how many, their mean, and Σ(x − mean)ᵏ for k = 2, 3, 4.
template <class V>
struct Moments {
  V count, mean, second, third, fourth;
};

// Adds those of a part about the mean of all.
template <class V>
HWY_INLINE void add_about(const Moments<V>& part, Moments<V>& all) {
  const V e = part.mean - all.mean, e2 = e * e;
  all.second = all.second + (part.second + part.count * e2);
  all.third = all.third + (part.third + V(3.0) * e * part.second + part.count * e2 * e);
  all.fourth = all.fourth + (part.fourth + V(4.0) * e * part.third + V(6.0) * e2 * part.second + part.count * e2 * e2);
}

// Of all keys that a query sees: those without weight are 0. NaN where the weights differ by no more than rounding.
HWY_INLINE Vector<double> kurtosis_in_double(const Powers<Vector<double>>& of, double epsilon) {
  using V = Vector<double>;
  const V zero(0.0), e = V::select_or_zero(of.used > zero, of.s1 / of.used), e2 = e * e, per_key = V(1.0) / of.keys;
  const Moments<V> used{.count = of.used,
                        .mean = of.center * of.per_unit + e,
                        .second = of.s2 - e * of.s1,
                        .third = of.s3 - V(3.0) * e * of.s2 + V(2.0) * e2 * of.s1,
                        .fourth = of.s4 - V(4.0) * e * of.s3 + V(6.0) * e2 * of.s2 - V(3.0) * e2 * e * of.s1};
  const Moments<V> unused{.count = of.keys - of.used, .mean = zero, .second = zero, .third = zero, .fourth = zero};
  Moments<V> all{
      .count = of.keys, .mean = used.mean * of.used * per_key, .second = zero, .third = zero, .fourth = zero};
  add_about(used, all);
  add_about(unused, all);
  const V variance = all.second * per_key, rounding = V(8 * epsilon) * of.largest_weight * of.per_unit;
  return V::select(variance > rounding * rounding, all.fourth * per_key / (variance * variance),
                   V(std::numeric_limits<double>::quiet_NaN()));
}

template <class T>
HWY_INLINE Vector<T> kurtosis_of(const Powers<Vector<T>>& of) {
  constexpr double epsilon = std::numeric_limits<T>::epsilon();
  if constexpr (sizeof(T) == 8) {
    return kurtosis_in_double(of, epsilon);
  } else {
    const typename Vector<double>::Tag d;
    const hn::Half<typename Vector<T>::Tag> half;
    const auto in_double = [&](const auto& part) HWY_ATTR {
      return kurtosis_in_double({part(of.used), part(of.center), part(of.per_unit), part(of.s1), part(of.s2),
                                 part(of.s3), part(of.s4), part(of.keys), part(of.largest_weight)},
                                epsilon);
    };
    const auto low = in_double([&](Vector<T> all)
                                   HWY_ATTR { return Vector<double>(hn::PromoteTo(d, hn::LowerHalf(half, all.raw))); });
    const auto high = in_double(
        [&](Vector<T> all) HWY_ATTR { return Vector<double>(hn::PromoteTo(d, hn::UpperHalf(half, all.raw))); });
    return hn::Combine(typename Vector<T>::Tag(), hn::DemoteTo(half, high.raw), hn::DemoteTo(half, low.raw));
  }
}

// The first key whose |weight| is the largest of all lanes; −1 where all are 0.
template <class T>
T first_of_largest(const T* largest_of, const T* index_of) {
  using V = Vector<T>;
  const V each = V::load(largest_of);
  const T maximum = each.maximum();
  const V candidates = V::select(each == V(maximum), V::load(index_of), V(std::numeric_limits<T>::infinity()));
  return maximum > T(0) ? candidates.minimum() : T(-1);
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
  // Relative to the largest exponent so far, no weight is above 1. Entropies are known for such weights alone.
  const auto add = [&]<bool at_most_1, bool with_argmax, bool entropy_known>() HWY_ATTR {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      T* row = sums_of_rows + r * scratch<T>;
      if (at_most_1 && !tile.fresh && alpha[r] != T(1)) shrink(alpha[r], row);
      add_row<at_most_1, with_argmax, entropy_known>(tile.weights + r * tile.stride, tile,
                                                     tile.entropies + r * Vector<T>::lanes, row);
    }
  };
  const auto add_with = [&]<bool with_argmax>() HWY_ATTR {
    if (tile.entropies)
      add.template operator()<true, with_argmax, true>();
    else if (alpha)
      add.template operator()<true, with_argmax, false>();
    else
      add.template operator()<false, with_argmax, false>();
  };
  if (argmax)
    add_with.template operator()<true>();
  else
    add_with.template operator()<false>();
}

template <class T>
void store_statistics(std::int64_t rows, const T* sums_of_rows, const RowsOfWeights<T>& of, const RowStatistics<T>& to,
                      std::int64_t place) {
  using V = Vector<T>;
  using To = RowStatistics<T>;
  const V zero(T(0)), one(T(1)), minus_infinity(-std::numeric_limits<T>::infinity());
  const hn::RebindToSigned<typename V::Tag> indices;
  using Index = hn::TFromD<decltype(indices)>;
  Index each_row[V::lanes];
  for (int i = 0; i < V::lanes; ++i) each_row[i] = static_cast<Index>(i * scratch<T>);
  const auto rows_apart = hn::LoadU(indices, each_row);
  for (std::int64_t r = 0; r < rows; r += V::lanes) {
    const std::int64_t count = std::min<std::int64_t>(V::lanes, rows - r);
    const T* const from = sums_of_rows + r * scratch<T>;
    const auto number_of = [&](Number which) HWY_ATTR {
      return V(hn::GatherIndex(typename V::Tag(), from + numbers_at<T> + which, rows_apart));
    };
    const auto sum_of = [&](Sum which)
                            HWY_ATTR { return fold<LanesTo::sum, V::lanes>(from + which * V::lanes, scratch<T>); };
    const auto first_of = [&](const T* values) HWY_ATTR { return V::load_first(values + r, count); };
    const auto store = [&](typename To::Place what, V values)
                           HWY_ATTR { values.store_first(&to.at(what, place + r), count); };
    const V a = sum_of(absolute), n = sum_of(negative), e = sum_of(entropy), keys = first_of(of.keys);
    const V maximum = fold<LanesTo::maximum, V::lanes>(from + largest * V::lanes, scratch<T>);
    const V scale = one / first_of(of.normalizer), size = V::abs(scale);
    const V above = number_of(positive), is_used = number_of(used), below = is_used - above;
    const V share = V::select_or_zero(keys > zero, one / keys);
    const auto all_0 = a == zero, turned = scale < zero;
    const V log_a = V::log(a), log_mass = of.shift ? log_a + first_of(of.shift) : log_a;
    store(To::log_mass_at, V::select(all_0, minus_infinity, log_mass));
    store(To::sum_at, (a - (n + n)) * scale);
    store(To::abs_sum_at, a * size);
    store(To::negative_mass_at, V::select(turned, a - n, n) * size);
    store(To::entropy_at, V::zero_where(all_0, log_a - e / a));
    store(To::sink_at, number_of(sink) * scale);
    store(To::largest_at, maximum * size);
    store(To::keys_at, keys);
    store(To::positive_at, V::select(turned, below, above) * share);
    store(To::negative_at, V::select(turned, above, below) * share);
    store(To::kurtosis_at,
          kurtosis_of<T>({is_used, number_of(center), number_of(per_unit), sum_of(first_power), sum_of(second_power),
                          sum_of(third_power), sum_of(fourth_power), keys, maximum}));
    if (to.argmax_wanted)
      for (std::int64_t i = 0; i < count; ++i) {
        const T* row = from + i * scratch<T>;
        to.at(To::argmax_at, place + r + i) = first_of_largest(row + largest * V::lanes, row + index * V::lanes);
      }
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
