#include "cogwheel/authoring/slopes_check.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

constexpr std::array scores{-7.3, -4.0, -2.5, -1.25, -0.7, -0.31, -0.01, 0.013, 0.3, 0.8, 1.5, 2.2, 3.9, 7.1};

std::string text_of(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

struct Difference {
  double slope;
  bool smooth;  // both sides agree: neither a jump nor a kink lies within the step
};

// Central differences of two steps, extrapolated: the error is of fourth order.
Difference difference(const std::function<double(double)>& function, double at, double step) {
  const auto central = [&](double h) { return (function(at + h) - function(at - h)) / (2 * h); };
  const double middle = function(at);
  const double left = (middle - function(at - step)) / step, right = (function(at + step) - middle) / step;
  const double fine = central(step / 2);
  return {.slope = fine + (fine - central(step)) / 3,
          .smooth = std::abs(left - right) <= 1e-2 * (std::abs(left) + std::abs(right)) + 1e-6};
}

void compare(const std::string& what, const std::function<double(double)>& function, double at, double slope) {
  const Difference expected = difference(function, at, 1e-4);
  if (!std::isfinite(expected.slope) || !expected.smooth) return;
  // Rounding of the values, divided by the step.
  const double rounding = 1e-11 * (std::abs(function(at)) + 1);
  if (std::abs(slope - expected.slope) <= 1e-5 * std::abs(expected.slope) + 1e-7 + rounding) return;
  throw UsageError(
      expected_got(what + " = " + text_of(at), text_of(expected.slope) + " (by finite differences)", text_of(slope)));
}

}  // namespace

void check_slopes(std::string_view name, const ScalarMap& map, std::span<const double> given) {
  std::vector<double> theta(given.begin(), given.end());
  theta.resize(map.parameters, 1.0);
  for (double& scalar : theta)
    if (std::isnan(scalar)) scalar = 0.5;  // a default that stands for something else
  const std::string of(name);
  const double shift = map.energy == nullptr ? 0 : 1.5;
  const Row<double> row{.visible = 16, .shift = shift};
  for (const double s : scores) {
    const Terms<double> terms = map.terms(theta.data(), s, row);
    if (std::isnan(terms.weight) || std::isnan(terms.mass))
      throw UsageError(expected_got(of + ": " + (std::isnan(terms.weight) ? "f" : "g") + " at s = " + text_of(s),
                                    "a number", "none (the logarithm or root of a negative number, 0/0)"));
    const Terms<double> slopes = map.slopes(theta.data(), s, row);
    compare(
        of + ": slope of f at s", [&](double x) { return map.terms(theta.data(), x, row).weight; }, s, slopes.weight);
    compare(
        of + ": slope of g at s", [&](double x) { return map.terms(theta.data(), x, row).mass; }, s, slopes.mass);
  }
}

}  // namespace cogwheel
