#include "cogwheel/tasks/translation/transformer_options.h"

#include <algorithm>
#include <vector>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/blocks/feed_forward.h"
#include "cogwheel/nn/options/layer_mechanisms.h"
#include "cogwheel/tasks/translation/transformer.h"

namespace cogwheel::tasks::translation {
namespace {

nn::LayerMechanisms mechanisms_of(const TransformerOptions& options) {
  return {options.mechanism, options.layers, options.first_softmax_layers, options.last_softmax_layers};
}

// Throws UsageError for a mechanism whose queries cannot read the keys of another sequence, or see later tokens.
void expect_reads_another_sequence(const TransformerOptions& options) {
  for (const Mechanism* mechanism : LayerPattern(options.mechanism, "model.mechanism").mechanisms()) {
    const char* const why = mechanism->recurrent() != nullptr ? ", which has a state"
                            : mechanism->is_matrix()          ? ", a function of a whole matrix of scores"
                            : mechanism->ties_keys            ? ", whose keys are its queries"
                                                              : nullptr;
    if (why != nullptr)
      throw UsageError(expected_got("model.mechanism", "one whose queries can read the keys of another sentence",
                                    std::string(mechanism->description.name) + why));
  }
}

}  // namespace

std::int64_t TransformerOptions::feed_forward_width() const {
  if (feed_forward != 0) return feed_forward;
  if (activation != "swiglu") return 4 * width;
  constexpr std::int64_t multiple = 32;
  return (8 * width + 3 * multiple - 1) / (3 * multiple) * multiple;
}

void check(const TransformerOptions& options) {
  using Count = Range<std::int64_t>;
  constexpr std::int64_t max_units = 1 << 20;
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("model.") + name, value, range);
  };
  const auto expect_one_of = [](const char* name, const std::string& value, const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), value) == known.end())
      throw UsageError(expected_got(std::string("model.") + name, expected_names(value, known), value));
  };
  expect("vocabulary", options.vocabulary, Count{1, 1 << 24});
  expect("context", options.context, Count{2, runs::context_range.max});  // a word and the end
  expect("layers", options.layers, Count{1, 1000});
  expect("heads", options.heads, Count{1, max_units});
  expect("key_value_heads", options.key_value_heads, Count{0, max_units});
  expect("width", options.width, Count{1, max_units});
  expect("feed_forward", options.feed_forward, Count{0, max_units});
  expect("first_softmax_layers", options.first_softmax_layers, Count{0, options.layers});
  expect("last_softmax_layers", options.last_softmax_layers, Count{0, options.layers - options.first_softmax_layers});
  expect("dropout", options.dropout, runs::dropout_range);
  expect_one_of("activation", options.activation, nn::activation_names());
  expect_one_of("norm", options.norm, {"layer", "rms"});
  expect_one_of("position", options.position, {"learned", "rotary", "rotary_halves", "none"});
  expect_reads_another_sequence(options);
  nn::check(mechanisms_of(options), "model.mechanism");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    nn::check(encoder_layer(options, layer).attention);
    nn::check(*decoder_layer(options, layer).memory_attention);
  }
  if (const auto rotary = rotary_options(options)) {
    if (rotary->head_dim % 2 != 0)
      throw UsageError(expected_got("model.position",
                                    "learned for an odd head_dim (" + std::to_string(rotary->head_dim) + ")",
                                    options.position));
    nn::check(*rotary, "model.rotary_");
  }
}

std::int64_t balanced_width(const TransformerOptions& options) { return options.feed_forward_width(); }
void set_balanced_width(TransformerOptions& options, std::int64_t width) { options.feed_forward = width; }
std::int64_t output_heads(const TransformerOptions& options) {
  return nn::output_heads_of(options.mechanism, options.heads);
}
nn::MechanismText mechanism_text(const TransformerOptions& options, std::string_view what) {
  return nn::text_of(mechanisms_of(options), what);
}

std::optional<nn::RotaryOptions> rotary_options(const TransformerOptions& options) {
  if (!options.position.starts_with("rotary")) return std::nullopt;
  return nn::RotaryOptions{
      .head_dim = options.width / options.heads,
      .positions = options.context,
      .layout = options.position == "rotary" ? nn::RotaryLayout::interleaved : nn::RotaryLayout::halves};
}

nn::TransformerBlockOptions encoder_layer(const TransformerOptions& options, std::int64_t layer) {
  return {.attention = {.width = options.width,
                        .heads = options.heads,
                        .key_value_heads = options.key_value_heads,
                        .mechanism = mechanisms_of(options).at(layer),
                        .layer = layer,
                        .first_lambda_depth = options.first_lambda_depth,
                        .projection_bias = options.bias,
                        .output_bias = options.bias,
                        .causal = false},
          .feed_forward = {.width = options.width,
                           .hidden = options.feed_forward_width(),
                           .activation = nn::activation_of(options.activation),
                           .bias = options.bias},
          .norm = options.norm == "rms" ? nn::NormKind::rms : nn::NormKind::layer,
          .norm_bias = options.bias};
}

nn::TransformerBlockOptions decoder_layer(const TransformerOptions& options, std::int64_t layer) {
  nn::TransformerBlockOptions block = encoder_layer(options, layer);
  block.memory_attention = block.attention;
  block.memory_attention->memory = true;
  block.attention.causal = true;
  return block;
}

std::vector<runs::ConfigField> config_fields(TransformerOptions& options) {
  return {
      {"model.mechanism", &options.mechanism},
      {"model.first_softmax_layers", &options.first_softmax_layers},
      {"model.last_softmax_layers", &options.last_softmax_layers},
      {"model.first_lambda_depth", &options.first_lambda_depth},
      {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},
      {"model.layers", &options.layers},
      {"model.heads", &options.heads},
      {"model.key_value_heads", &options.key_value_heads},
      {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward},
      {"model.activation", &options.activation},
      {"model.norm", &options.norm},
      {"model.position", &options.position},
      {"model.bias", &options.bias},
      {"model.tied_embeddings", &options.tied_embeddings},
      {"model.dropout", &options.dropout},
  };
}

}  // namespace cogwheel::tasks::translation
