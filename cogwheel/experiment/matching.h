// Models of equal size: parameters that a mechanism adds or saves are balanced by the feed-forward width.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/models/language_model_options.h"

namespace cogwheel {

// The largest difference in parameters between two models that count as matched.
inline constexpr double parameter_tolerance = 0.01;

// `options` with the feed-forward width for which the number of parameters is closest to `parameters`; unchanged if it
// is already within the tolerance, so that mechanisms of nearly equal size keep the same feed-forward. (Differential
// attention halves its heads in the model itself.) `count` returns the parameters of a model. Throws UsageError where
// no width is within the tolerance.
LanguageModelOptions match_parameters(const LanguageModelOptions& options, std::int64_t parameters,
                                      const std::function<std::int64_t(const LanguageModelOptions&)>& count);

// The number of heads in attention maps: those of a mixture are its output heads; of a hybrid, the layer with most.
std::int64_t output_heads(const LanguageModelOptions& options);

}  // namespace cogwheel
