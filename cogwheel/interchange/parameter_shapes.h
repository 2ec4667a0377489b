// The parameters of a model here, from its options.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/interchange/tensor_layout.h"
#include "cogwheel/runs/configuration/model_options.h"

namespace cogwheel::interchange {

// Names and shapes, in the order of the model, which is made without memory for numbers. The options must be checked.
std::vector<std::pair<std::string, Shape>> parameter_shapes(const runs::ModelOptions& model);

}  // namespace cogwheel::interchange
