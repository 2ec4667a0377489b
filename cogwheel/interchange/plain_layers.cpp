#include "cogwheel/interchange/plain_layers.h"

#include <fmt/format.h>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/encoders/encoder_stack.h"

namespace cogwheel::interchange {

std::string lack_of_layers(const tasks::encoders::EncoderLayerOptions& options, std::string_view architecture) {
  const nn::LayerMechanisms mechanisms = tasks::encoders::layer_mechanisms(options);
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    if (const std::string name = mechanisms.at(layer); name != "softmax")
      return expected_got(fmt::format("model.mechanism of layer {}", layer),
                          fmt::format("softmax, the only attention of {}", architecture), name);
  if (options.position != "learned")
    return expected_got("model.position", fmt::format("learned, as in every {}", architecture), options.position);
  return "";
}

}  // namespace cogwheel::interchange
