// Sums of the lanes of many vectors at once, and their maxima. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

enum class LanesTo { sum, maximum };

// Of `count` vectors, `stride` numbers apart, the lanes of each put together: lanes / count parts of the first, then of
// the second, …
template <LanesTo what, int count, class T>
HWY_INLINE Vector<T> fold(const T* from, std::int64_t stride) {
  using V = Vector<T>;
  if constexpr (count == 1) {
    return V::load(from);
  } else {
    const V low = fold<what, count / 2>(from, stride), high = fold<what, count / 2>(from + count / 2 * stride, stride);
    const typename V::Tag tag;
    const V even = hn::ConcatEven(tag, high.raw, low.raw), odd = hn::ConcatOdd(tag, high.raw, low.raw);
    return what == LanesTo::sum ? even + odd : V::max(even, odd);
  }
}

// The sums of `rows` vectors, over the first of them or elsewhere; both arrays are of a whole number of vectors.
template <class T>
HWY_NOINLINE void sums_of_rows(const T* from, std::int64_t rows, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for (std::int64_t row = 0; row < rows; row += lanes)
    fold<LanesTo::sum, lanes>(from + row * lanes, lanes).store(to + row);
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
