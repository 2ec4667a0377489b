// The options of a vision transformer, apart from the module.
#pragma once
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::tasks::images {

// `vocabulary` counts classes; `context` is the number of tokens, which follows from the images.
struct VisionTransformerOptions : encoders::EncoderLayerOptions {
  std::int64_t image_size = 0;  // pixels of a side; a task takes both from its images
  std::int64_t channels = 0;
  std::int64_t patch = 4;         // pixels of a side; a divisor of image_size
  std::string pooling = "class";  // what is classified: a token of its own, or the "mean" of the patches

  std::int64_t tokens() const;
  bool operator==(const VisionTransformerOptions&) const = default;
};

// The values of `pooling`.
inline constexpr std::string_view pooling_names[] = {"class", "mean"};

// Throws UsageError that names the first invalid option.
void check(const VisionTransformerOptions& options);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(VisionTransformerOptions& options);
const runs::ModelEntry& vision_transformer_entry();
inline const runs::ModelEntry& model_entry(const VisionTransformerOptions&) { return vision_transformer_entry(); }
void stand_in_for_data(VisionTransformerOptions& options);

}  // namespace cogwheel::tasks::images
