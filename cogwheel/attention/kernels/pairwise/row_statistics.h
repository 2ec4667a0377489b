// Statistics of the weights a of a query: some numbers a row.
#pragma once
#include <cstdint>

namespace cogwheel {

// The statistics of every row in one array, [count][rows]. Null if not wanted.
//
//   log_mass       log Σ|w f|, before the normaliser: w multiplies after the map (dropout, a Gaussian window). For a
//                  mixture, which combines normalised weights, log Σ|a|. −∞ where all are 0.
//   sum            Σ a
//   abs_sum        Σ |a|
//   negative_mass  Σ |a| over a < 0
//   entropy        −Σ p log p of p = |a| / Σ|a|, in nats; 0 where all are 0
//   sink           a of key 0; 0 where it is hidden
//   largest        max |a|
//   keys           n, the number of keys that the query sees
//   positive       the share of these with a > 0
//   negative       the share of these with a < 0
//   kurtosis       (Σ(a − μ)⁴/n) / (Σ(a − μ)²/n)² over these, μ = Σa/n: 3 for normally distributed weights, n − 2 +
//   1/(n − 1)
//                  where one key has all. NaN where they differ by no more than rounding.
//   argmax         the first key with the largest |a|, −1 where all are 0. A number like the others, exact up to 2^24
//                  keys in float; written only if wanted.
template <class T>
struct RowStatistics {
  // Indices into the array.
  enum Place {
    log_mass_at,
    sum_at,
    abs_sum_at,
    negative_mass_at,
    entropy_at,
    sink_at,
    largest_at,
    keys_at,
    positive_at,
    negative_at,
    kurtosis_at,
    argmax_at,
    count
  };

  T* data = nullptr;
  std::int64_t rows = 0;
  bool argmax_wanted = false;

  bool wanted() const { return data != nullptr; }
  T& at(Place place, std::int64_t row) const { return data[place * rows + row]; }
};

}  // namespace cogwheel
