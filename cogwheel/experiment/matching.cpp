#include "cogwheel/experiment/matching.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/layer_pattern.h"

namespace cogwheel {
namespace {

LanguageModelOptions with_feed_forward(LanguageModelOptions options, std::int64_t width) {
  options.feed_forward = std::max<std::int64_t>(1, width);
  return options;
}

}  // namespace

LanguageModelOptions match_parameters(const LanguageModelOptions& options, std::int64_t parameters,
                                      const std::function<std::int64_t(const LanguageModelOptions&)>& count) {
  const auto within_tolerance = [&](const LanguageModelOptions& model) {
    return std::abs(static_cast<double>(count(model)) / static_cast<double>(parameters) - 1) <= parameter_tolerance;
  };
  if (within_tolerance(options)) return options;
  // The count is linear in the width, so that two points determine it.
  const auto one = static_cast<double>(count(with_feed_forward(options, 1)));
  const double of_a_unit = static_cast<double>(count(with_feed_forward(options, 2))) - one;
  const auto width = 1 + std::llround((static_cast<double>(parameters) - one) / of_a_unit);
  const LanguageModelOptions matched = with_feed_forward(options, width);
  if (!within_tolerance(matched))
    throw UsageError(
        expected_got("--match parameters with " + options.mechanism,
                     "a feed-forward width that gives " + std::to_string(parameters) + " within 1 %",
                     std::to_string(count(matched)) + " at width " + std::to_string(matched.feed_forward)));
  return matched;
}

std::int64_t output_heads(const LanguageModelOptions& options) {
  int sub_heads = std::numeric_limits<int>::max();
  for (const Mechanism* mechanism : LayerPattern(options.mechanism).mechanisms())
    sub_heads = std::min(sub_heads, mechanism->sub_heads());
  return options.heads / sub_heads;
}

}  // namespace cogwheel
