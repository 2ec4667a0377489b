#include "cogwheel/tasks/language/language_model_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/blocks/feed_forward.h"
#include "cogwheel/nn/options/layer_mechanisms.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_form.h"

namespace cogwheel::tasks::language {
namespace {

const std::vector<std::string> norms{"layer", "rms"}, positions{"learned", "rotary", "rotary_halves", "alibi", "none"},
    recurrent_layers{"paper", "plain"};

template <class Number>
void expect_option(const char* name, Number value, const Range<Number>& range) {
  expect_within(std::string("model.") + name, value, range);
}

void expect_one_of(const std::vector<std::string>& known, const std::string& value, const char* name) {
  if (std::find(known.begin(), known.end(), value) == known.end())
    throw UsageError(expected_got(std::string("model.") + name, expected_names(value, known), value));
}

nn::LayerMechanisms layer_mechanisms(const LanguageModelOptions& options) {
  return {options.mechanism, options.layers, options.first_softmax_layers, options.last_softmax_layers};
}

}  // namespace

const std::vector<std::string>& position_names() { return positions; }
const std::vector<std::string>& recurrent_layer_names() { return recurrent_layers; }

std::int64_t LanguageModelOptions::feed_forward_width() const {
  if (feed_forward != 0) return feed_forward;
  if (activation != "swiglu") return 4 * width;
  // Three matrices instead of two, so two thirds of the units. Llama rounds to 256, which is too coarse at small
  // widths.
  constexpr std::int64_t multiple = 32;
  return (8 * width + 3 * multiple - 1) / (3 * multiple) * multiple;
}

void check(const LanguageModelOptions& options) {
  using Count = Range<std::int64_t>;
  constexpr std::int64_t max_units = 1 << 20;
  expect_option("vocabulary", options.vocabulary, Count{1, 1 << 24});
  expect_option("context", options.context, runs::context_range);
  expect_option("layers", options.layers, Count{1, 10'000});
  expect_option("heads", options.heads, Count{1, max_units});
  expect_option("key_value_heads", options.key_value_heads, Count{0, max_units});
  expect_option("width", options.width, Count{1, max_units});
  expect_option("feed_forward", options.feed_forward, Count{0, max_units});
  expect_option("first_softmax_layers", options.first_softmax_layers, Count{0, options.layers});
  expect_option("last_softmax_layers", options.last_softmax_layers,
                Count{0, options.layers - options.first_softmax_layers});
  expect_one_of(nn::activation_names(), options.activation, "activation");
  expect_one_of(norms, options.norm, "norm");
  expect_one_of(positions, options.position, "position");
  expect_one_of(recurrent_layers, options.recurrent_layer, "recurrent_layer");
  expect_option("rotary_base", options.rotary_base, Range<double>{.min = 1, .max = 1e30, .min_excluded = true});
  for (const auto& [name, value] :
       {std::pair("norm_epsilon", options.norm_epsilon), std::pair("head_norm_epsilon", options.head_norm_epsilon)})
    expect_option(name, value, Range<double>{.min = 0, .max = 1});
  expect_option("head_dim", options.head_dim, Count{0, max_units});
  expect_option("window", options.window, Count{0, std::int64_t{1} << 40});
  expect_option("dropout", options.dropout, runs::dropout_range);
  nn::check(layer_mechanisms(options), "model.mechanism");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const nn::TransformerBlockOptions block = layer_options(options, layer);
    if (block.recurrent)
      nn::check(*block.recurrent);
    else
      nn::check(block.attention);
  }
  const std::optional<nn::RotaryOptions> rotary = rotary_options(options);
  if (rotary && rotary->head_dim % 2 != 0)
    throw UsageError(expected_got(
        "model.position", "learned for an odd head_dim (" + std::to_string(rotary->head_dim) + ")", options.position));
  if (rotary) nn::check(*rotary, "model.rotary_");
  if (!rotary && options.rotary_scaling.rule != "none")
    throw UsageError(
        expected_got("model.rotary_scaling", "none for positions that are not rotary", options.rotary_scaling.rule));
}

std::int64_t balanced_width(const LanguageModelOptions& options) { return options.feed_forward_width(); }
void set_balanced_width(LanguageModelOptions& options, std::int64_t width) { options.feed_forward = width; }

std::int64_t output_heads(const LanguageModelOptions& options) {
  return nn::output_heads_of(options.mechanism, options.heads);
}
nn::MechanismText mechanism_text(const LanguageModelOptions& options, std::string_view what) {
  return nn::text_of(layer_mechanisms(options), what);
}

std::optional<nn::RotaryOptions> rotary_options(const LanguageModelOptions& options) {
  if (!options.position.starts_with("rotary")) return std::nullopt;
  return nn::RotaryOptions{
      .head_dim = options.used_head_dim(),
      .positions = options.context,
      .layout = options.position == "rotary" ? nn::RotaryLayout::interleaved : nn::RotaryLayout::halves,
      .base = options.rotary_base,
      .scaling = options.rotary_scaling};
}

std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer) {
  return layer_mechanisms(options).at(layer);
}

const LanguageModelOptions& options_of(const LanguageModel& model) { return model->options(); }

nn::TransformerBlockOptions layer_options(const LanguageModelOptions& options, std::int64_t layer) {
  const std::string mechanism = layer_mechanism(options, layer);
  const auto given = [](double epsilon) { return epsilon > 0 ? std::optional(epsilon) : std::nullopt; };
  std::optional<nn::RecurrentLayerOptions> recurrent;
  if (find_recurrent_law(mechanism) != nullptr)
    recurrent = {.width = options.width,
                 .heads = options.heads,
                 .head_dim = options.head_dim,
                 .mechanism = mechanism,
                 .layer = layer,
                 .layers = options.layers,
                 .bias = options.bias,
                 .plain = options.recurrent_layer == "plain",
                 .law_options = options.law_options,
                 .context = options.context,
                 .head_norm_epsilon = given(options.head_norm_epsilon)};
  nn::TransformerBlockOptions block{.attention = {.width = options.width,
                                                  .heads = options.heads,
                                                  .head_dim = options.head_dim,
                                                  .key_value_heads = options.key_value_heads,
                                                  .mechanism = mechanism,
                                                  .layer = layer,
                                                  .first_lambda_depth = options.first_lambda_depth,
                                                  .projection_bias = options.bias || options.projection_bias,
                                                  .output_bias = options.bias,
                                                  .causal = true,
                                                  .window = options.window,
                                                  .alibi = options.position == "alibi",
                                                  .query_key_norm = options.query_key_norm,
                                                  .norm_epsilon = given(options.norm_epsilon)},
                                    .recurrent = recurrent,
                                    .feed_forward = {.width = options.width,
                                                     .hidden = options.feed_forward_width(),
                                                     .activation = nn::activation_of(options.activation),
                                                     .bias = options.bias},
                                    .norm = norm_kind(options),
                                    .norm_bias = options.bias,
                                    .norm_epsilon = given(options.norm_epsilon)};
  if (options.head_norm_epsilon > 0) block.attention.head_norm_epsilon = options.head_norm_epsilon;
  return block;
}

std::vector<runs::ConfigField> config_fields(LanguageModelOptions& options) {
  std::vector<runs::ConfigField> fields{
      {"model.form", runs::NamesOtherKeys{[&options](std::string_view name, std::string_view what) {
         set_form(options, name, what);
       }}},
      {"model.mechanism", &options.mechanism},
      {"model.recurrent_layer", &options.recurrent_layer},
      {"model.first_softmax_layers", &options.first_softmax_layers},
      {"model.last_softmax_layers", &options.last_softmax_layers},
      {"model.first_lambda_depth", &options.first_lambda_depth},
      {"model.vocabulary", &options.vocabulary},
      {"model.context", &options.context},
      {"model.layers", &options.layers},
      {"model.heads", &options.heads},
      {"model.key_value_heads", &options.key_value_heads},
      {"model.head_dim", &options.head_dim},
      {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward},
      {"model.activation", &options.activation},
      {"model.norm", &options.norm},
      {"model.norm_epsilon", &options.norm_epsilon},
      {"model.head_norm_epsilon", &options.head_norm_epsilon},
      {"model.query_key_norm", &options.query_key_norm},
      {"model.window", &options.window},
      {"model.position", &options.position},
      {"model.rotary_base", &options.rotary_base},
      {"model.rotary_scaling", &options.rotary_scaling.rule},
      {"model.rotary_factor", &options.rotary_scaling.factor},
      {"model.rotary_low_frequency", &options.rotary_scaling.low_frequency},
      {"model.rotary_high_frequency", &options.rotary_scaling.high_frequency},
      {"model.rotary_original_context", &options.rotary_scaling.original_context},
      {"model.bias", &options.bias},
      {"model.projection_bias", &options.projection_bias},
      {"model.tied_head", &options.tied_head},
      {"model.head_bias", &options.head_bias},
      {"model.dropout", &options.dropout},
  };
  const auto with_key = [&](const std::string& key) {
    return std::find_if(fields.begin(), fields.end(), [&](const runs::ConfigField& field) { return field.key == key; });
  };
  auto place = std::next(with_key("model.recurrent_layer"));
  for (const LawOption& option : law_options()) {
    const std::string key = "model." + std::string(option.name);
    if (with_key(key) != fields.end())
      throw UsageError(expected_got("option of a law", "a name that no key of a model has", std::string(option.name)));
    place = std::next(fields.insert(place, {key, &options.law_options[option.name]}));
  }
  return fields;
}

}  // namespace cogwheel::tasks::language
