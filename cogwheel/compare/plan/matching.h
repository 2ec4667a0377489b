// Models of equal size: parameters that a mechanism adds or saves are balanced by one width.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::compare {

// The largest difference in parameters between two models that count as matched.
inline constexpr double parameter_tolerance = 0.01;

// `options` with the balanced width (runs/configuration/model_options.h) for which the number of parameters is closest
// to `parameters`; unchanged if it is already within the tolerance, so that mechanisms of nearly equal size keep the
// same width. (Differential attention halves its heads in the model itself.) `count` returns the parameters of a model.
// Throws UsageError where no width is within the tolerance.
runs::ModelOptions match_parameters(const runs::ModelOptions& options, std::int64_t parameters,
                                    const std::function<std::int64_t(const runs::ModelOptions&)>& count);

}  // namespace cogwheel::compare
