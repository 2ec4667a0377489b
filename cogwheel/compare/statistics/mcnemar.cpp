#include "cogwheel/compare/statistics/mcnemar.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>

namespace cogwheel::compare {

double mcnemar_p_value(std::int64_t only_first, std::int64_t only_second) {
  const std::int64_t told = only_first + only_second;
  if (told == 0) return 1;
  const boost::math::binomial coin(static_cast<double>(told), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(coin, static_cast<double>(std::min(only_first, only_second))));
}

}  // namespace cogwheel::compare
