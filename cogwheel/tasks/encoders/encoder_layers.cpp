#include "cogwheel/tasks/encoders/encoder_layers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/options/layer_mechanisms.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/tasks/encoders/encoder_stack.h"

namespace cogwheel::tasks::encoders {

void check_layers(const EncoderLayerOptions& options) {
  using Count = Range<std::int64_t>;
  constexpr std::int64_t max_units = 1 << 20;
  const auto expect = [](const char* name, std::int64_t value, const Count& range) {
    expect_within(std::string("model.") + name, value, range);
  };
  expect("layers", options.layers, {1, 10'000});
  expect("heads", options.heads, {1, max_units});
  expect("width", options.width, {1, max_units});
  expect("feed_forward", options.feed_forward, {0, max_units});
  expect("first_softmax_layers", options.first_softmax_layers, {0, options.layers});
  expect("last_softmax_layers", options.last_softmax_layers, {0, options.layers - options.first_softmax_layers});
  expect_within("model.dropout", options.dropout, runs::dropout_range);
  const std::vector<std::string> positions(std::begin(encoder_positions), std::end(encoder_positions));
  if (std::find(positions.begin(), positions.end(), options.position) == positions.end())
    throw UsageError(expected_got("model.position", expected_names(options.position, positions), options.position));
  nn::check(layer_mechanisms(options), "model.mechanism");
  for (const Mechanism* mechanism : LayerPattern(options.mechanism, "model.mechanism").mechanisms())
    if (mechanism->recurrent() != nullptr)
      throw UsageError(expected_got("model.mechanism", "one in which every token sees every other",
                                    std::string(mechanism->description.name) + ", which has a state"));
  for (std::int64_t layer = 0; layer < options.layers; ++layer) nn::check(block_options(options, {}, layer).attention);
}

void check_context(const EncoderLayerOptions& options, std::int64_t tokens) {
  if (options.context != 0 && options.context != tokens)
    throw UsageError(expected_got("model.context", std::to_string(tokens) + ", the tokens of an image",
                                  std::to_string(options.context)));
}

void check_image(std::int64_t image_size, std::int64_t channels, std::int64_t patch) {
  using Count = Range<std::int64_t>;
  expect_within("model.image_size", image_size, Count{1, 1 << 14});
  expect_within("model.channels", channels, Count{1, 1 << 10});
  expect_within("model.patch", patch, Count{1, 1 << 14});
  if (image_size % patch != 0)
    throw UsageError(expected_got("model.patch", "a divisor of the " + std::to_string(image_size) + " pixels of a side",
                                  std::to_string(patch)));
}

std::int64_t balanced_width(const EncoderLayerOptions& options) { return options.feed_forward_width(); }
void set_balanced_width(EncoderLayerOptions& options, std::int64_t width) { options.feed_forward = width; }
std::int64_t output_heads(const EncoderLayerOptions& options) {
  return nn::output_heads_of(options.mechanism, options.heads);
}
nn::MechanismText mechanism_text(const EncoderLayerOptions& options, std::string_view what) {
  return nn::text_of(layer_mechanisms(options), what);
}

std::vector<runs::ConfigField> encoder_layer_fields(EncoderLayerOptions& options,
                                                    const std::vector<runs::ConfigField>& own) {
  std::vector<runs::ConfigField> fields{
      {"model.mechanism", &options.mechanism},
      {"model.first_softmax_layers", &options.first_softmax_layers},
      {"model.last_softmax_layers", &options.last_softmax_layers},
      {"model.first_lambda_depth", &options.first_lambda_depth},
      {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},
      {"model.layers", &options.layers},
      {"model.heads", &options.heads},
      {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward},
      {"model.position", &options.position},
      {"model.dropout", &options.dropout},
  };
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

}  // namespace cogwheel::tasks::encoders
