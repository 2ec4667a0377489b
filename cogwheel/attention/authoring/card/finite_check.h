// Whether a map's functions of a finite score are finite numbers.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/card/measured_map.h"

namespace cogwheel::authoring {

struct Finiteness {
  // Each in one line: a quantity, the score or row at which it is not a finite number, and its value there.
  std::vector<std::string> problems;
  // For a map without an energy: the range of scores in which everything is finite in fp32, and beyond which something
  // is infinite. With an energy every score is in range, or there is a problem.
  double lowest, highest, max_score;  // max_score: the largest score to consider

  // Sums overflow before their terms do: half of the range, unless it covers all scores.
  bool is_well_within(double score) const {
    return score <= (highest == max_score ? max_score : highest / 2) &&
           score >= (lowest == -max_score ? -max_score : lowest / 2);
  }
};

// Weights, totals, N, and derivatives along the score and the learnable scalars, in fp32 and in float64, at
// tried_scores and in rows of equal, opposite and different ones. A map without an energy may overflow, but not for |s|
// up to min_range, and it may not become NaN, nor infinite from numbers that were not large.
Finiteness check_finite(const MeasuredMap& map);

inline constexpr double min_range = 10;  // scores of this size are ordinary

}  // namespace cogwheel::authoring
