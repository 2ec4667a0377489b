#include "cogwheel/tasks/language/language_model_options.h"

#include <algorithm>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/layer_mechanisms.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_form.h"

namespace cogwheel::tasks::language {
namespace {

const std::vector<std::string> activations{"gelu", "swiglu"}, norms{"layer", "rms"},
    positions{"learned", "rotary", "rotary_halves", "none"}, recurrent_layers{"paper", "plain"};

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
  expect_one_of(activations, options.activation, "activation");
  expect_one_of(norms, options.norm, "norm");
  expect_one_of(positions, options.position, "position");
  expect_one_of(recurrent_layers, options.recurrent_layer, "recurrent_layer");
  expect_option("rotary_base", options.rotary_base, Range<double>{.min = 1, .max = 1e30, .min_excluded = true});
  expect_option("dropout", options.dropout, runs::dropout_range);
  nn::check(layer_mechanisms(options), "model.mechanism");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const nn::TransformerBlockOptions block = layer_options(options, layer);
    if (block.recurrent)
      nn::check(*block.recurrent);
    else
      nn::check(block.attention);
  }
  if (turns_heads(options) && options.width / options.heads % 2 != 0)
    throw UsageError(expected_got("model.position",
                                  "learned for an odd head_dim (" + std::to_string(options.width / options.heads) + ")",
                                  options.position));
}

std::int64_t balanced_width(const LanguageModelOptions& options) { return options.feed_forward_width(); }
void set_balanced_width(LanguageModelOptions& options, std::int64_t width) { options.feed_forward = width; }

std::int64_t output_heads(const LanguageModelOptions& options) {
  return nn::output_heads_of(options.mechanism, options.heads);
}
nn::MechanismText mechanism_text(const LanguageModelOptions& options, std::string_view what) {
  return nn::text_of(layer_mechanisms(options), what);
}

bool turns_heads(const LanguageModelOptions& options) {
  return options.position != "learned" && options.position != "none";
}

std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer) {
  return layer_mechanisms(options).at(layer);
}

const LanguageModelOptions& options_of(const LanguageModel& model) { return model->options(); }

nn::NormKind norm_kind(const LanguageModelOptions& options) {
  return options.norm == "rms" ? nn::NormKind::rms : nn::NormKind::layer;
}

nn::TransformerBlockOptions layer_options(const LanguageModelOptions& options, std::int64_t layer) {
  const std::string mechanism = layer_mechanism(options, layer);
  std::optional<nn::RecurrentLayerOptions> recurrent;
  if (find_recurrent_law(mechanism) != nullptr)
    recurrent = {.width = options.width,
                 .heads = options.heads,
                 .mechanism = mechanism,
                 .layer = layer,
                 .layers = options.layers,
                 .bias = options.bias,
                 .plain = options.recurrent_layer == "plain",
                 .law_options = options.law_options,
                 .context = options.context};
  return {.attention = {.width = options.width,
                        .heads = options.heads,
                        .key_value_heads = options.key_value_heads,
                        .mechanism = mechanism,
                        .layer = layer,
                        .first_lambda_depth = options.first_lambda_depth,
                        .projection_bias = options.bias,
                        .output_bias = options.bias,
                        .causal = true},
          .recurrent = recurrent,
          .feed_forward = {.width = options.width,
                           .hidden = options.feed_forward_width(),
                           .activation = options.activation == "swiglu" ? nn::Activation::swiglu : nn::Activation::gelu,
                           .bias = options.bias},
          .norm = norm_kind(options),
          .norm_bias = options.bias};
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
      {"model.width", &options.width},
      {"model.feed_forward", &options.feed_forward},
      {"model.activation", &options.activation},
      {"model.norm", &options.norm},
      {"model.position", &options.position},
      {"model.rotary_base", &options.rotary_base},
      {"model.bias", &options.bias},
      {"model.tied_head", &options.tied_head},
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
