#include "cogwheel/evaluate/student_t.h"

#include <cmath>
#include <limits>

namespace cogwheel {
namespace {

// Continued fraction of the incomplete beta function (DLMF 8.17.22), evaluated with Lentz's method. It converges fast
// for x < (a + 1) / (a + b + 2); the caller uses the symmetry of I beyond.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  const auto guarded = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    fraction *= c * d;
    if (std::abs(c * d - 1) < std::numeric_limits<double>::epsilon()) break;
  }
  return fraction;
}

}  // namespace

double regularized_incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * beta_fraction(a, b, x) / a;
  return 1 - std::exp(log_front) * beta_fraction(b, a, 1 - x) / b;
}

double student_t_two_sided_p(double t, double degrees) {
  if (std::isinf(t)) return 0;
  return regularized_incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_t_quantile(double confidence, double degrees) {
  const double p = 1 - confidence;
  double low = 0, high = 1;
  while (student_t_two_sided_p(high, degrees) > p) high *= 2;
  // The p-value falls with t, so bisection to the last bit is safe where Newton's method would need a good start.
  for (double middle = high / 2; middle > low && middle < high; middle = low + (high - low) / 2)
    (student_t_two_sided_p(middle, degrees) > p ? low : high) = middle;
  return high;
}

}  // namespace cogwheel
