// Whether what a map makes of a finite score is a finite number.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/authoring/measured_map.h"

namespace cogwheel {

struct Finiteness {
  // Each in one line: a quantity, the score or the row at which it is no finite number, and what it is.
  std::vector<std::string> problems;
  // Of a map without an energy: the range in which fp32 holds all that it makes of a score, and beyond which something
  // is infinite. A map with one holds any score, or has a problem.
  double lowest, highest, most;  // most: the largest score there is

  // Sums overflow before their terms do: within half of the range, where it ends before all scores do.
  bool is_well_within(double score) const {
    return score <= (highest == most ? most : highest / 2) && score >= (lowest == -most ? -most : lowest / 2);
  }
};

// Weights, totals, N, and derivatives along the score and the learnable scalars, in fp32 and in float64, at
// tried_scores and in rows of equal, opposite and different ones. A map without an energy may overflow, but not for |s|
// up to least_range, and it may not turn to NaN, nor to infinity from numbers that had not grown.
Finiteness check_finite(const MeasuredMap& map);

inline constexpr double least_range = 10;  // scores of this size are ordinary

}  // namespace cogwheel
