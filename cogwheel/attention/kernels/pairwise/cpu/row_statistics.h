// Statistics of a row's weights, accumulated tile by tile beside the products: Σ|f|, Σ of the negative part, Σ|f|
// log|f|, the largest |f| and where it is, f of key 0, and powers of the differences of what is not 0. Like the sums of
// the values, all are relative to the row's shift and are rescaled when it rises. Compiled once per instruction set and
// type in row_statistics.cpp.in; does not depend on a map.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::HWY_NAMESPACE {

// Scratch of one row, in numbers.
template <class T>
std::int64_t statistics_scratch();

template <class T>
void clear_statistics(std::int64_t rows, T* sums);

// Weights w·f of keys [first_key + first, first_key + last) in whole vectors, 0 where hidden; row r at r·stride.
template <class T>
struct WeightTile {
  const T* weights;
  std::int64_t stride, rows, first_key, first, last;
  bool fresh = false;            // the first of these rows, whose sums need not be cleared before
  const T* entropies = nullptr;  // Σ|w f| log|w f| of each row in vectors of partial sums, if known
};

// Adds a tile's weights to the rows' sums, after multiplying these by alpha [rows] (unless null).
template <class T>
void add_weights(const WeightTile<T>& tile, const T* alpha, bool argmax, T* sums);

// What the weights of rows become: w·f / normalizer, relative to a shift, null for none, of `keys` that the query sees.
template <class T>
struct RowsOfWeights {
  const T *normalizer, *shift, *keys;  // [rows]
};

// The statistics of `rows` rows from `place`. `sums` is of whole vectors of rows; what lies beyond is not used.
template <class T>
void store_statistics(std::int64_t rows, const T* sums, const RowsOfWeights<T>& of, const RowStatistics<T>& to,
                      std::int64_t place);

}  // namespace cogwheel::HWY_NAMESPACE
