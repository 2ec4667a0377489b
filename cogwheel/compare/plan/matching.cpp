#include "cogwheel/compare/plan/matching.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::compare {
namespace {

runs::ModelOptions with_balanced(runs::ModelOptions options, std::int64_t width) {
  runs::set_balanced_width(options, std::max<std::int64_t>(1, width));
  return options;
}

}  // namespace

runs::ModelOptions match_parameters(const runs::ModelOptions& options, std::int64_t parameters,
                                    const std::function<std::int64_t(const runs::ModelOptions&)>& count) {
  const auto within_tolerance = [&](const runs::ModelOptions& model) {
    return std::abs(static_cast<double>(count(model)) / static_cast<double>(parameters) - 1) <= parameter_tolerance;
  };
  if (within_tolerance(options)) return options;
  // The count rises with the width: the nearest lies between one that is too narrow and one that is too wide.
  const auto deviation = [&](std::int64_t width) { return count(with_balanced(options, width)) - parameters; };
  std::int64_t narrow = 1, wide = 2;
  constexpr std::int64_t widest = 1 << 20;
  while (wide < widest && deviation(wide) < 0) narrow = wide, wide *= 2;
  while (wide - narrow > 1) {
    const std::int64_t middle = (narrow + wide) / 2;
    (deviation(middle) < 0 ? narrow : wide) = middle;
  }
  const std::int64_t width = std::abs(deviation(narrow)) <= std::abs(deviation(wide)) ? narrow : wide;
  const runs::ModelOptions matched = with_balanced(options, width);
  if (!within_tolerance(matched))
    throw UsageError(
        expected_got("--match parameters with " + runs::common(options).mechanism,
                     "a width that gives " + std::to_string(parameters) + " within 1 %, or --match tokens",
                     std::to_string(count(matched)) + " at width " + std::to_string(runs::balanced_width(matched))));
  return matched;
}

}  // namespace cogwheel::compare
