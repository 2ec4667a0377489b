// Sums of the lanes of many vectors at once. Included inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

// Of `count` vectors one after another, the sums of each: lanes / count terms of the first, then of the second, …
template <int count, class T>
HWY_INLINE Vector<T> fold(const T* from) {
  using V = Vector<T>;
  if constexpr (count == 1) {
    return V::load(from);
  } else {
    const V low = fold<count / 2>(from), high = fold<count / 2>(from + count / 2 * V::lanes);
    const typename V::Tag tag;
    return hn::Add(hn::ConcatEven(tag, high.raw, low.raw), hn::ConcatOdd(tag, high.raw, low.raw));
  }
}

// The sums of `rows` vectors, over the first of them or elsewhere; both arrays are of a whole number of vectors.
template <class T>
HWY_NOINLINE void sums_of_rows(const T* from, std::int64_t rows, T* to) {
  constexpr std::int64_t lanes = Vector<T>::lanes;
  for (std::int64_t row = 0; row < rows; row += lanes) fold<lanes>(from + row * lanes).store(to + row);
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
