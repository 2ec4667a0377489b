#include "cogwheel/bindings/layer_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/mixers/alibi.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/pairwise/parameters.h"

namespace cogwheel::bindings {
namespace {

using Json = nlohmann::ordered_json;

struct Field {
  std::string name;
  std::variant<std::string*, std::int64_t*, double*, bool*, std::optional<double>*> slot;
};
using Fields = std::vector<Field>;

// The one list of each layer's options, in both directions.
Fields fields_of(nn::AttentionLayerOptions& options) {
  return {{"width", &options.width},
          {"heads", &options.heads},
          {"key_value_heads", &options.key_value_heads},
          {"head_dim", &options.head_dim},
          {"mechanism", &options.mechanism},
          {"layer", &options.layer},
          {"first_lambda_depth", &options.first_lambda_depth},
          {"projection_bias", &options.projection_bias},
          {"output_bias", &options.output_bias},
          {"causal", &options.causal},
          {"memory", &options.memory},
          {"window", &options.window},
          {"score", &options.score},
          {"alibi", &options.alibi},
          {"query_key_norm", &options.query_key_norm},
          {"norm_epsilon", &options.norm_epsilon},
          {"head_norm_epsilon", &options.head_norm_epsilon}};
}

Fields fields_of(nn::RecurrentLayerOptions& options) {
  Fields fields{{"width", &options.width},       {"heads", &options.heads},
                {"head_dim", &options.head_dim}, {"mechanism", &options.mechanism},
                {"layer", &options.layer},       {"layers", &options.layers},
                {"bias", &options.bias},         {"plain", &options.plain},
                {"context", &options.context},   {"head_norm_epsilon", &options.head_norm_epsilon}};
  for (const LawOption& option : law_options())
    fields.push_back({std::string(option.name), &options.law_options[option.name]});
  return fields;
}

// Options with enumerators as text.
struct FeedForwardFields {
  nn::FeedForwardOptions options = {};
  std::string activation = "gelu";
};
Fields fields_of(FeedForwardFields& of) {
  return {{"width", &of.options.width},
          {"hidden", &of.options.hidden},
          {"activation", &of.activation},
          {"bias", &of.options.bias}};
}
struct NormFields {
  std::string kind = "layer", place = "before";
  bool bias = true;
  double epsilon = 0;  // 0: that of the kind
};
Fields fields_of(NormFields& of) {
  return {{"kind", &of.kind}, {"place", &of.place}, {"bias", &of.bias}, {"epsilon", &of.epsilon}};
}

struct RotaryFields {
  nn::RotaryOptions options = {};
  bool halves = false;
};
Fields fields_of(RotaryFields& of) {
  return {{"head_dim", &of.options.head_dim},
          {"positions", &of.options.positions},
          {"base", &of.options.base},
          {"halves", &of.halves},
          {"scaling", &of.options.scaling.rule},
          {"factor", &of.options.scaling.factor},
          {"low_frequency", &of.options.scaling.low_frequency},
          {"high_frequency", &of.options.scaling.high_frequency},
          {"original_context", &of.options.scaling.original_context}};
}

constexpr std::string_view norms[]{"layer", "rms"}, norm_places[]{"before", "after"},
    gate_maps[]{"linear",      "sigmoid",  "log_sigmoid",       "log_sigmoid_16",
                "above_bound", "softplus", "minus_exponential", "step_times_constant"},
    features[]{"as_they_are", "silu_of_query", "unit", "elu_plus_one", "positive", "random_of_units"};

template <class Enum>
std::string text_of(std::span<const std::string_view> names, Enum value) {
  return std::string(names[static_cast<std::size_t>(value)]);
}
template <class Enum>
Enum value_of(std::span<const std::string_view> names, const std::string& text, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw UsageError(expected_got(what, expected_names(text, {names.begin(), names.end()}), text));
  return static_cast<Enum>(found - names.begin());
}

void write(Json& json, const auto& value) { json = value; }
void write(Json& json, const std::optional<double>& value) { json = value ? Json(*value) : Json(); }
void read(const Json& json, auto* slot) { json.get_to(*slot); }
void read(const Json& json, std::optional<double>* slot) { *slot = json.get<double>(); }

template <class Options>
Json json_of(Options options) {
  Json json = Json::object();
  for (const Field& field : fields_of(options))
    std::visit([&](const auto* value) { write(json[field.name], *value); }, field.slot);
  return json;
}

bool fits(const Json& json, const std::string*) { return json.is_string(); }
bool fits(const Json& json, const bool*) { return json.is_boolean(); }
bool fits(const Json& json, const double*) { return json.is_number(); }
bool fits(const Json& json, const std::optional<double>*) { return json.is_number(); }
bool fits(const Json& json, const std::int64_t*) { return json.is_number_integer(); }
const char* expected_for(const std::string*) { return "a text"; }
const char* expected_for(const bool*) { return "True or False"; }
const char* expected_for(const double*) { return "a number"; }
const char* expected_for(const std::optional<double>*) { return "a number"; }
const char* expected_for(const std::int64_t*) { return "a whole number"; }

template <class Options>
void read(const Json& json, Options& options) {
  const Fields fields = fields_of(options);
  for (const auto& element : json.items()) {
    const std::string& name = element.key();
    const Json& value = element.value();
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& each) { return each.name == name; });
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const Field& each : fields) names.push_back(each.name);
      throw UsageError(expected_got("option", expected_names(name, names), name));
    }
    std::visit(
        [&](auto* slot) {
          if (!fits(value, slot)) throw UsageError(expected_got(name, expected_for(slot), value.dump()));
          read(value, slot);
        },
        field->slot);
  }
}

Json parameters_of(const Mechanism& mechanism, std::int64_t heads) {
  Json parameters = Json::array();
  const auto names = ops::parameter_names(mechanism);
  const auto initial = mechanism.parameter_initial;
  if (mechanism.is_matrix()) {  // the columns of one tensor
    if (!initial.empty())
      parameters.push_back({{"name", names.front()},
                            {"sizes", {heads, static_cast<std::int64_t>(initial.size())}},
                            {"initial", std::vector<double>(initial.begin(), initial.end())}});
    return parameters;
  }
  for (std::size_t i = 0; i < initial.size(); ++i)
    parameters.push_back({{"name", names[i]}, {"sizes", {heads}}, {"initial", {initial[i]}}});
  return parameters;
}

Json description_of(const nn::RecurrentGateImpl& gate) {
  const nn::GateRecipe& recipe = gate.options().recipe;
  return {{"name", recipe.parameter},
          {"map", text_of(gate_maps, recipe.map)},
          {"sizes", gate.sizes()},
          {"reads_tokens", gate.reads_tokens()},
          {"rank", gate.rank()},
          {"tanh", recipe.tanh},
          {"multiplies_value", recipe.multiplies_value},
          {"doubled", gate.options().doubled},
          {"bound", gate.lower_bound()}};
}

}  // namespace

nlohmann::ordered_json description_of(const nn::AttentionLayerOptions& options) {
  check(options);
  const Mechanism& mechanism = find_mechanism(options.mechanism);
  Json json = json_of(options);
  json["head_dim"] = options.used_head_dim();
  json["norm_epsilon"] = options.used_norm_epsilon();
  json["sub_heads"] = mechanism.sub_heads();
  json["ties_keys"] = mechanism.ties_keys;
  json["operator"] = mechanism.operator_name;
  json["is_dense"] = mechanism.is_matrix();
  json["key_value_heads"] = options.used_key_value_heads();
  json["parameters"] = parameters_of(mechanism, options.heads);
  json["lambda_init"] = lambda_init_of(options);
  if (options.alibi) {
    const at::Tensor slopes = nn::alibi_slopes(options.heads / mechanism.sub_heads());
    json["alibi_slopes"] =
        std::vector<double>(slopes.const_data_ptr<double>(), slopes.const_data_ptr<double>() + slopes.numel());
  }
  return json;
}

nlohmann::ordered_json description_of(const nn::RecurrentLayerOptions& options) {
  check(options);
  const nn::PlaceParameters nowhere(at::kMeta);
  const nn::RecurrentLayerImpl layer(options);
  const nn::RecurrentRecipe& recipe = layer.recipe();
  Json json = json_of(options);
  json["head_dim"] = options.used_head_dim();
  json["reads_query"] = layer.law().has_query;
  json["reads_key"] = layer.law().has_key;
  json["number"] = nullptr;
  for (const RecurrentParameter& parameter : layer.law().parameters)
    if (parameter.required && parameter.axes.empty()) json["number"] = parameter.name;
  json["features"] = text_of(features, recipe.features);
  json["scaled"] = recipe.scaled;
  json["expansion"] = recipe.expansion;
  json["convolution"] = recipe.convolution;
  json["inner"] = recipe.inner;
  json["values_before_convolution"] = recipe.values_before_convolution;
  json["shared_keys"] = recipe.shared_keys;
  json["token_shift"] = recipe.token_shift;
  json["head_norm"] = recipe.head_norm;
  json["head_norm_epsilon"] = options.head_norm_epsilon.value_or(default_epsilon(nn::NormKind::rms));
  json["output_gate"] = recipe.output_gate;
  json["skip"] = recipe.skip;
  json["running_means"] = recipe.running_means;
  json["gates"] = Json::array();
  for (const nn::RecurrentGate& gate : layer.gates()) json["gates"].push_back(description_of(*gate));
  return json;
}

nlohmann::ordered_json description_of(const nn::TransformerBlockOptions& options) {
  Json json = Json::object();
  if (options.recurrent)
    json["recurrent"] = description_of(*options.recurrent);
  else
    json["attention"] = description_of(options.attention);
  if (options.memory_attention) json["memory_attention"] = description_of(*options.memory_attention);
  json["feed_forward"] = json_of(FeedForwardFields{
      options.feed_forward, nn::activation_names()[static_cast<std::size_t>(options.feed_forward.activation)]});
  json["norm"] = json_of(NormFields{text_of(norms, options.norm), text_of(norm_places, options.norm_place),
                                    options.norm_bias, options.norm_epsilon.value_or(default_epsilon(options.norm))});
  return json;
}

nlohmann::ordered_json description_of(const nn::RotaryOptions& options) {
  return json_of(RotaryFields{options, options.layout == nn::RotaryLayout::halves});
}

nn::RotaryOptions rotary_options_of(const nlohmann::ordered_json& json) {
  RotaryFields fields;
  read(json, fields);
  fields.options.layout = fields.halves ? nn::RotaryLayout::halves : nn::RotaryLayout::interleaved;
  check(fields.options);
  return fields.options;
}

nn::AttentionLayerOptions attention_options_of(const nlohmann::ordered_json& json) {
  nn::AttentionLayerOptions options;
  read(json, options);
  check(options);
  return options;
}

nn::RecurrentLayerOptions recurrent_options_of(const nlohmann::ordered_json& json) {
  nn::RecurrentLayerOptions options;
  read(json, options);
  check(options);
  return options;
}

nn::TransformerBlockOptions block_options_of(const nlohmann::ordered_json& json) {
  nn::TransformerBlockOptions options;
  const auto part = [&](const char* name) { return json.value(name, Json()); };
  if (const Json recurrent = part("recurrent"); !recurrent.is_null()) {
    options.recurrent = recurrent_options_of(recurrent);
    options.attention.width = options.recurrent->width;
  } else {
    options.attention = attention_options_of(part("attention"));
  }
  if (const Json memory = part("memory_attention"); !memory.is_null())
    options.memory_attention = attention_options_of(memory);
  FeedForwardFields feed_forward{.options = {.width = options.attention.width}};
  read(part("feed_forward"), feed_forward);
  options.feed_forward = feed_forward.options;
  const std::vector<std::string_view> activations(nn::activation_names().begin(), nn::activation_names().end());
  options.feed_forward.activation = value_of<nn::Activation>(activations, feed_forward.activation, "activation");
  NormFields norm;
  read(part("norm"), norm);
  options.norm = value_of<nn::NormKind>(norms, norm.kind, "norm");
  options.norm_place = value_of<nn::NormPlace>(norm_places, norm.place, "norm place");
  options.norm_bias = norm.bias;
  if (norm.epsilon > 0) options.norm_epsilon = norm.epsilon;
  return options;
}

}  // namespace cogwheel::bindings
