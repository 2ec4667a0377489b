// The options of a beam search (beam_search.h).
#pragma once
#include <cstdint>

#include "cogwheel/core/range.h"

namespace cogwheel::tasks::translation {

struct BeamOptions {
  std::int64_t beam = 5;      // hypotheses of a sentence; 1: always the most probable token
  double length_penalty = 1;  // α: a hypothesis of n tokens is worth log p / n^α
  // The most tokens of a translation, its end included, for a source of n: longest_factor · n + longest_more.
  double longest_factor = 2;
  std::int64_t longest_more = 10;
};

inline constexpr Range<std::int64_t> beam_range{1, 1000};
inline constexpr Range<double> length_penalty_range{0, 10};

}  // namespace cogwheel::tasks::translation
