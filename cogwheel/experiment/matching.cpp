#include "cogwheel/experiment/matching.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

ModelOptions with_balanced(ModelOptions options, std::int64_t width) {
  set_balanced_width(options, std::max<std::int64_t>(1, width));
  return options;
}

}  // namespace

ModelOptions match_parameters(const ModelOptions& options, std::int64_t parameters,
                              const std::function<std::int64_t(const ModelOptions&)>& count) {
  const auto within_tolerance = [&](const ModelOptions& model) {
    return std::abs(static_cast<double>(count(model)) / static_cast<double>(parameters) - 1) <= parameter_tolerance;
  };
  if (within_tolerance(options)) return options;
  // The count is linear in the width, so that two points determine it.
  const auto one = static_cast<double>(count(with_balanced(options, 1)));
  const double of_a_unit = static_cast<double>(count(with_balanced(options, 2))) - one;
  const auto width = 1 + std::llround((static_cast<double>(parameters) - one) / of_a_unit);
  const ModelOptions matched = with_balanced(options, width);
  if (!within_tolerance(matched))
    throw UsageError(
        expected_got("--match parameters with " + common(options).mechanism,
                     "a width that gives " + std::to_string(parameters) + " within 1 %",
                     std::to_string(count(matched)) + " at width " + std::to_string(balanced_width(matched))));
  return matched;
}

}  // namespace cogwheel
