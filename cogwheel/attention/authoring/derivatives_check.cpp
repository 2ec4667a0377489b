#include "cogwheel/attention/authoring/derivatives_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/card/jumps.h"
#include "cogwheel/attention/authoring/card/tried_scores.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

constexpr std::array ordinary_scores{-7.3, -4.0, -2.5, -1.25, -0.7, -0.31, -0.01, 0.013, 0.3, 0.8, 1.5, 2.2, 3.9, 7.1};

// Finite differences with one step.
struct Difference {
  double central, left, right;
  double noise;  // of the central one, from rounding of the values
  double step;

  Difference(const std::function<double(double)>& function, double at, double of) : step(of) {
    const double low = at - step, high = at + step;
    const double at_low = function(low), middle = function(at), at_high = function(high);
    central = (at_high - at_low) / (high - low);
    left = (middle - at_low) / (at - low);
    right = (at_high - middle) / (high - at);
    constexpr double smallest = 1e-300;  // smaller numbers lose digits
    noise = (std::numeric_limits<double>::epsilon() * (std::abs(at_low) + std::abs(at_high)) + smallest) / step;
  }
};

// With steps from a tenth of the score down to where only rounding is left, each a quarter of the one before: which of
// them is right depends on how fast the function changes.
std::vector<Difference> differences(const std::function<double(double)>& function, double at) {
  std::vector<Difference> ladder;
  double step = 0.1 * std::max(1.0, std::abs(at));
  for (int rung = 0; rung < 22; ++rung, step /= 4) ladder.emplace_back(function, at, step);
  return ladder;
}

// The one-sided differences converge as the step shrinks; at a kink or a jump they do not.
bool is_smooth(const Difference& wide, const Difference& narrow) {
  const double apart = std::abs(narrow.right - narrow.left);
  return apart <= 0.5 * std::abs(wide.right - wide.left) || apart <= 1e-6 * std::abs(narrow.central) + 8 * narrow.noise;
}

// Whether the derivative stays above or below the difference over the whole step. A difference is the mean of the
// derivative over its step, so a derivative that comes close to it somewhere may be right: the function may ripple
// finer than the step.
bool is_beyond(const std::function<double(double)>& derivative, double at, double step, double low, double high,
               double tolerance) {
  bool above = true, below = true;
  std::minstd_rand draw;  // random places, not in phase with any ripple
  for (int sample = 0; sample < 64 && (above || below); ++sample) {
    const double part = 2 * static_cast<double>(draw()) / std::minstd_rand::max() - 1,
                 there = derivative(at + part * step);
    above &= there > high + tolerance;
    below &= there < low - tolerance;
  }
  return above || below;
}

}  // namespace

DerivativeComparison compare_derivative(const std::function<double(double)>& function,
                                        const std::function<double(double)>& derivative, double at) {
  const double claimed = derivative(at);
  if (!std::isfinite(function(at)) || !std::isfinite(claimed)) return {Agreement::unknown};
  const std::vector<Difference> ladder = differences(function, at);
  std::vector<double> estimates;  // extrapolated: the error is of fourth order
  for (std::size_t i = 0; i + 1 < ladder.size(); ++i)
    estimates.push_back(ladder[i + 1].central + (ladder[i + 1].central - ladder[i].central) / 15);
  DerivativeComparison best{Agreement::unknown}, other{Agreement::unknown};
  double min_error = std::numeric_limits<double>::infinity(), min_error_of_other = min_error;
  // Three consecutive estimates that agree are no coincidence.
  for (std::size_t i = 0; i + 2 < estimates.size(); ++i) {
    const auto [low, high] = std::minmax({estimates[i], estimates[i + 1], estimates[i + 2]});
    const double spread = high - low, noise = 20 * ladder[i + 3].noise, size = std::max(std::abs(low), std::abs(high));
    if (!(spread <= 1e-3 * size + noise)) continue;
    const double error = spread + noise, tolerance = error + 1e-5 * size;
    const bool agrees = low - tolerance <= claimed && claimed <= high + tolerance;
    // The estimates of a function that ripples change with the step, so agreement of a precise one is final.
    if (agrees && error <= 1e-5 * size) return {Agreement::same};
    if (error < min_error) {
      min_error = error;
      best.agreement = agrees ? Agreement::same : Agreement::unknown;
    }
    if (!agrees && error < min_error_of_other && noise <= 1e-3 * std::max(size, std::abs(claimed)) &&
        is_smooth(ladder[i + 1], ladder[i + 2]) && is_beyond(derivative, at, ladder[i].step, low, high, tolerance))
      min_error_of_other = error, other = {.agreement = Agreement::other, .expected = estimates[i + 1]};
  }
  return best.agreement == Agreement::same ? best : other;
}

bool is_kink(const std::function<double(double)>& function, double at) {
  if (jump_at(function, at)) return true;
  const std::vector<Difference> ladder = differences(function, at);
  // Neither the widest steps, which blur the function, nor the narrowest, which are dominated by rounding.
  for (std::size_t i = 3; i < 10; ++i)
    if (is_smooth(ladder[i], ladder[i + 1])) return false;
  return true;
}

CheckedRange check_derivatives(std::string_view name, const ScalarMap& map, std::span<const double> given,
                               double max_score) {
  std::vector<double> theta(given.begin(), given.end());
  theta.resize(map.parameters, 1.0);
  for (double& scalar : theta)
    if (std::isnan(scalar)) scalar = 0.5;  // a default that stands for a computed value
  const std::string of(name);
  CheckedRange range;
  const auto check_at = [&](double s, double shift) {
    const Row<double> row{.visible = 16, .shift = shift};
    bool checked = true;
    for (const bool mass : {false, true}) {
      const auto part_of = [mass](const Terms<double>& terms) { return mass ? terms.mass : terms.weight; };
      const auto derivative = [&](double x) { return part_of(map.derivatives(theta.data(), x, row)); };
      const DerivativeComparison comparison =
          compare_derivative([&](double x) { return part_of(map.terms(theta.data(), x, row)); }, derivative, s);
      checked &= comparison.agreement == Agreement::same;
      if (comparison.agreement == Agreement::other)
        throw UsageError(expected_got(of + ": derivative of " + (mass ? "g" : "f") + " at s = " + exact_text(s),
                                      exact_text(comparison.expected) + " (by finite differences)",
                                      exact_text(derivative(s))));
    }
    if (checked) range = {.lowest = std::min(range.lowest, s), .highest = std::max(range.highest, s)};
  };
  for (const double s : ordinary_scores) {
    if (std::abs(s) > max_score) continue;
    const double shift = map.energy == nullptr ? 0 : 1.5;
    const Terms<double> terms = map.terms(theta.data(), s, {.visible = 16, .shift = shift});
    if (std::isnan(terms.weight) || std::isnan(terms.mass))
      throw UsageError(expected_got(of + ": " + (std::isnan(terms.weight) ? "f" : "g") + " at s = " + exact_text(s),
                                    "a number", "none (the logarithm or root of a negative number, 0/0)"));
    check_at(s, shift);
  }
  for (const double s : scores_between_kinks(max_score))
    check_at(s, map.energy == nullptr ? 0 : map.energy(theta.data(), s));
  return range;
}

}  // namespace cogwheel::authoring
