// The layers that encoders of other programs have.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::interchange {

// As Architecture::lack: attention that is no softmax in some layer, or positions that are not learned.
std::string lack_of_layers(const tasks::encoders::EncoderLayerOptions& options, std::string_view architecture);

}  // namespace cogwheel::interchange
