// Means, paired differences and their correction for several comparisons.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace cogwheel {

// The level at which a difference counts as significant, and 1 − the confidence of every interval before correction.
inline constexpr double significance_level = 0.05;

// The mean of a sample and half the width of its t interval; no interval for a sample of one.
struct Estimate {
  double mean = 0;
  std::optional<double> interval;
};

// `values` must not be empty.
Estimate estimate_mean(std::span<const double> values, double confidence = 1 - significance_level);

// Two-sided p-value of the t test that the mean of `differences` is 0; none for fewer than two. Differences that are
// all equal give 0, or 1 if they are all 0.
std::optional<double> paired_p_value(std::span<const double> differences);

// One comparison of several, after Holm (1979).
struct HolmStep {
  double p_adjusted = 1;
  double confidence = 0;  // of the interval that excludes 0 exactly where p_adjusted < significance_level
};

// Holm's step-down procedure: the probability that any true null hypothesis is rejected is at most the level, whatever
// the dependence between the tests.
//
// The confidences invert the same steps. With m comparisons, the k-th smallest p-value is compared with level/(m − k
// + 1) up to the first that fails, and all further ones with the level at which that one failed; the interval of each
// is a t interval of 1 − that level. So an interval never contradicts its adjusted p-value, which a Bonferroni interval
// beside Holm's p-value can. The joint guarantee is for the error rate of the decisions; the intervals of rejected
// hypotheses are narrower than simultaneous ones would be.
std::vector<HolmStep> holm(std::span<const double> p_values);

}  // namespace cogwheel
