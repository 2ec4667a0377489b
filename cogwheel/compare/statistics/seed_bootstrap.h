// A bootstrap over seeds, of anything that is computed from means over seeds.
//
// To draw a few seeds with replacement makes intervals that are too short: of three, an interval of 95 % holds in three
// cases of four. So the seeds' deviations from their mean have normal weights instead (the multiplier bootstrap), and
// the draw is scaled by what is not known of their spread, √((n − 1)/χ²). What follows linearly from the means then has
// its t interval; what does not, that of its draws. All means of a draw have the weights of the same seeds, so that
// what is paired stays paired.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace cogwheel::compare {

inline constexpr std::uint64_t bootstrap_seed = 33;
inline constexpr std::int64_t bootstrap_draws = 2000;

// The weights of `seeds` (two at least) deviations in a numbered draw: a drawn mean is mean + Σ weight · (value −
// mean).
std::vector<double> seed_weights(std::int64_t seeds, std::uint64_t seed, std::int64_t draw);

struct DrawnInterval {
  double low = 0, high = 0;
};

// From the quantile (1 − confidence)/2 of the draws to that of the rest; not empty.
DrawnInterval interval_of_draws(std::vector<double> draws, double confidence);

}  // namespace cogwheel::compare
