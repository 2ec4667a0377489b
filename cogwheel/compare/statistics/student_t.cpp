#include "cogwheel/compare/statistics/student_t.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace cogwheel::compare {

double student_t_two_sided_p(double t, double degrees) {
  if (std::isinf(t)) return 0;
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(degrees), std::abs(t)));
}

double student_t_quantile(double confidence, double degrees) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), (1 - confidence) / 2));
}

}  // namespace cogwheel::compare
