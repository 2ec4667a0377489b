#include "cogwheel/evaluate/matching.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"

namespace cogwheel {
namespace {

double deviation(const LanguageModelOptions& options, std::int64_t parameters) {
  return std::abs(static_cast<double>(parameter_count(options)) / static_cast<double>(parameters) - 1);
}

LanguageModelOptions with_feed_forward(LanguageModelOptions options, std::int64_t width) {
  options.feed_forward = std::max<std::int64_t>(1, width);
  return options;
}

}  // namespace

LanguageModelOptions match_parameters(const LanguageModelOptions& options, std::int64_t parameters) {
  if (deviation(options, parameters) <= parameter_tolerance) return options;
  // The count is linear in the width: two points give the rest.
  const double one = static_cast<double>(parameter_count(with_feed_forward(options, 1)));
  const double slope = static_cast<double>(parameter_count(with_feed_forward(options, 2))) - one;
  const auto width = 1 + std::llround((static_cast<double>(parameters) - one) / slope);
  const LanguageModelOptions matched = with_feed_forward(options, width);
  if (deviation(matched, parameters) > parameter_tolerance)
    throw UsageError(
        expected_got("--match parameters with " + options.mechanism,
                     "a feed-forward width that gives " + std::to_string(parameters) + " within 1 %",
                     std::to_string(parameter_count(matched)) + " at width " + std::to_string(matched.feed_forward)));
  return matched;
}

std::int64_t output_heads(const LanguageModelOptions& options) {
  return options.heads / find_mechanism(options.mechanism).sub_heads();
}

}  // namespace cogwheel
