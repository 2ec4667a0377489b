// Models of equal size: what each mechanism changes is made up for elsewhere.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/models/language_model_options.h"

namespace cogwheel {

// The largest difference in parameters between two models that count as matched.
inline constexpr double parameter_tolerance = 0.01;

// `options` with the feed-forward width that brings the number of parameters closest to `parameters`; left as it is
// where it is within the tolerance already, so that mechanisms of nearly equal size keep the same feed-forward.
// (Differential attention halves its heads in the model itself.) `count` gives the parameters of a model. Throws
// UsageError where no width comes within it.
LanguageModelOptions match_parameters(const LanguageModelOptions& options, std::int64_t parameters,
                                      const std::function<std::int64_t(const LanguageModelOptions&)>& count);

// Heads as the attention maps count them: a mixture's maps are those of its output heads.
std::int64_t output_heads(const LanguageModelOptions& options);

}  // namespace cogwheel
