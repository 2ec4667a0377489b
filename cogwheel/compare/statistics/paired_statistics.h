// Means, paired differences and their correction for several comparisons.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace cogwheel::compare {

// The level at which a difference counts as significant, and 1 − the confidence of every interval before correction.
inline constexpr double significance_level = 0.05;

// The mean of a sample and half the width of its t interval; no interval for a sample without a spread.
struct Estimate {
  double mean = 0;
  std::optional<double> interval;
};

// By how much values that are equal may differ where they are differences of rounded numbers up to this size.
double rounding_of(double largest);

// Whether a sample shows how far its values scatter: two at least that differ by more than `rounding`, which is what
// values that are equal may differ by where they come from rounded numbers.
bool has_spread(std::span<const double> values, double rounding = 0);

// `values` must not be empty.
Estimate estimate_mean(std::span<const double> values, double confidence = 1 - significance_level, double rounding = 0);

// Two-sided p-value of the t test that the mean of `differences` is 0; none without a spread: t would be infinite, and
// its p of 0 would say of two coin tosses that agree that they always will.
std::optional<double> paired_p_value(std::span<const double> differences, double rounding = 0);

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

}  // namespace cogwheel::compare
