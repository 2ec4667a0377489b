// The options of a U-ViT, apart from the module.
#pragma once
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/tasks/encoders/encoder_layers.h"

namespace cogwheel::tasks::images {

// `vocabulary` counts classes that condition the noise, 0 for none; `context` is the number of tokens, which follows
// from the rest. `layers` is odd: as many before the middle one as after it.
struct UVitOptions : encoders::EncoderLayerOptions {
  std::int64_t image_size = 0;  // pixels of a side, or of latents; a task takes both from its images
  std::int64_t channels = 0;
  std::int64_t patch = 2;            // pixels of a side; a divisor of image_size
  std::int64_t condition_width = 0;  // of the vectors that condition the noise: a text's, say; 0: none
  std::int64_t condition_tokens = 0;

  UVitOptions() { layers = 13, heads = 8, width = 512; }  // U-ViT-S
  // Tokens before the patches: the time and the condition.
  std::int64_t extra_tokens() const { return 1 + (vocabulary > 0 ? 1 : 0) + condition_tokens; }
  std::int64_t tokens() const;
  bool operator==(const UVitOptions&) const = default;
};

// Throws UsageError that names the first invalid option.
void check(const UVitOptions& options);

// What any topology says of itself (runs/configuration/model_options.h).
std::vector<runs::ConfigField> config_fields(UVitOptions& options);
const runs::ModelEntry& u_vit_entry();
inline const runs::ModelEntry& model_entry(const UVitOptions&) { return u_vit_entry(); }
void stand_in_for_data(UVitOptions& options);

}  // namespace cogwheel::tasks::images
