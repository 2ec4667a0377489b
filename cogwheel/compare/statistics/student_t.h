// The parts of Student's t distribution that paired comparisons need, from Boost.Math.
#pragma once

namespace cogwheel::compare {

// P(|T| ≥ |t|) for `degrees` > 0 degrees of freedom: the p-value of a two-sided test.
double student_t_two_sided_p(double t, double degrees);

// The t with P(|T| ≤ t) = `confidence`, in [0, 1): half the width of an interval in standard errors.
double student_t_quantile(double confidence, double degrees);

}  // namespace cogwheel::compare
