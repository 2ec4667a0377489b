// The layers of models in which every token sees every other: encoders of text, vision transformers, U-ViTs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cogwheel/nn/options/mechanism_text.h"
#include "cogwheel/runs/configuration/config_field.h"

namespace cogwheel::tasks::encoders {

// The options that these models have in common; each adds its own.
struct EncoderLayerOptions {
  std::int64_t vocabulary = 0;  // of tokens, or classes: the model says of what
  std::int64_t context = 0;     // the most tokens of a sequence
  std::int64_t layers = 6;
  std::int64_t heads = 4;  // in a softmax layer; a differential layer has half as many, twice as wide
  std::int64_t width = 256;
  std::int64_t feed_forward = 0;          // hidden units; 0: 4·width
  std::string position = "learned";       // or "none": the same for any order of the tokens
  std::string mechanism = "softmax";      // or a hybrid, "cog*3+softmax", repeated from layer to layer
  std::int64_t first_softmax_layers = 0;  // this many layers at the start and at the end stay softmax
  std::int64_t last_softmax_layers = 0;
  std::int64_t first_lambda_depth = 0;  // for differential attention: see AttentionLayerOptions
  double dropout = 0;                   // in training: embedding, attention weights, what is added to the stream

  std::int64_t feed_forward_width() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  bool operator==(const EncoderLayerOptions&) const = default;
};

// The values of `position`.
inline constexpr std::string_view encoder_positions[] = {"learned", "none"};

// Throws UsageError that names the first invalid option: "model.heads: expected …, got …".
void check_layers(const EncoderLayerOptions& options);
// The same for `context`, where a model has just so many tokens; 0: not said.
void check_context(const EncoderLayerOptions& options, std::int64_t tokens);
// The same for square images that are cut into square patches.
void check_image(std::int64_t image_size, std::int64_t channels, std::int64_t patch);

// What any topology says of itself (runs/configuration/model_options.h). Parameters are balanced by the feed-forward's
// width.
std::int64_t balanced_width(const EncoderLayerOptions& options);
void set_balanced_width(EncoderLayerOptions& options, std::int64_t width);
std::int64_t output_heads(const EncoderLayerOptions& options);
nn::MechanismText mechanism_text(const EncoderLayerOptions& options, std::string_view what);

// The keys of these options, and after them those of a model's own.
std::vector<runs::ConfigField> encoder_layer_fields(EncoderLayerOptions& options,
                                                    const std::vector<runs::ConfigField>& own);

// Gives the size of images, where data have not decided it yet, the least value that is valid.
template <class Options>
void stand_in_for_image(Options& options) {
  if (options.image_size != 0 && options.channels != 0) return;
  if (options.image_size == 0) options.image_size = options.patch;
  options.channels = 1;
  options.context = 0;
}

}  // namespace cogwheel::tasks::encoders
