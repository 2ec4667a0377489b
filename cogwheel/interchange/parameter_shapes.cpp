#include "cogwheel/interchange/parameter_shapes.h"

#include <torch/nn/module.h>

#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::interchange {

std::vector<std::pair<std::string, Shape>> parameter_shapes(const runs::ModelOptions& model) {
  const nn::PlaceParameters nowhere(at::kMeta);
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const auto& parameter : runs::make_model(model)->named_parameters())
    shapes.emplace_back(parameter.key(), parameter.value().sizes().vec());
  return shapes;
}

}  // namespace cogwheel::interchange
