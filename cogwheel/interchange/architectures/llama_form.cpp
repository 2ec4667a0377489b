#include "cogwheel/interchange/architectures/llama_form.h"

#include <optional>
#include <utility>

namespace cogwheel::interchange {
namespace {

struct RotaryKeys {
  double base;
  nn::RotaryScaling scaling;

  bool operator==(const RotaryKeys&) const = default;
};

// The object of transformers 5 (rope_parameters) or 4 (rope_scaling), which names the rule as `type` or `rope_type`.
RotaryKeys read_rotary_object(ForeignConfig object, double base) {
  constexpr Range<double> positive{.min = 0, .max = 1e30, .min_excluded = true};
  RotaryKeys keys{.base = object.number("rope_theta", base, positive), .scaling = {}};
  const std::vector<std::string> rules{"default", "linear", "llama3"};
  const std::string rule = object.word(object.has("rope_type") ? "rope_type" : "type", "default", rules);
  object.expect("type", rule);
  object.expect("partial_rotary_factor", 1.0);
  if (rule != "default") {
    keys.scaling.rule = rule;
    keys.scaling.factor = object.number("factor", positive);
  }
  if (rule == "llama3") {
    keys.scaling.low_frequency = object.number("low_freq_factor", positive);
    keys.scaling.high_frequency = object.number("high_freq_factor", positive);
    keys.scaling.original_context =
        object.whole("original_max_position_embeddings", Range<std::int64_t>{1, std::int64_t{1} << 40});
  }
  object.finish();
  return keys;
}

void read_rotary(ForeignConfig& config, LanguageModelOptions& options) {
  constexpr double default_base = 10'000;
  const double base =
      config.number("rope_theta", default_base, Range<double>{.min = 0, .max = 1e30, .min_excluded = true});
  std::optional<RotaryKeys> found;
  for (const char* const name : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(name)) continue;
    const RotaryKeys keys = read_rotary_object(config.part(name), base);
    if (found && *found != keys) config.refuse(name, "the same as rope_parameters", "others");
    found = keys;
  }
  config.skip({"rope_parameters", "rope_scaling"});
  config.expect("rope_interleaved", false);
  config.expect("use_mrope", false);
  options.position = "rotary_halves";
  options.rotary_base = found ? found->base : base;
  if (found) options.rotary_scaling = found->scaling;
}

nlohmann::ordered_json rotary_object(const LanguageModelOptions& options) {
  const nn::RotaryScaling& scaling = options.rotary_scaling;
  nlohmann::ordered_json object = {{"rope_type", scaling.rule == "none" ? "default" : scaling.rule},
                                   {"rope_theta", options.rotary_base}};
  if (scaling.rule != "none") object["factor"] = scaling.factor;
  if (scaling.rule == "llama3") {
    object["low_freq_factor"] = scaling.low_frequency;
    object["high_freq_factor"] = scaling.high_frequency;
    object["original_max_position_embeddings"] = scaling.original_context;
  }
  return object;
}

}  // namespace

bool is_llama_form(const runs::ModelOptions& model) {
  const LanguageModelOptions* const options = language_options(model);
  return options != nullptr && (options->norm == "rms" || options->activation == "swiglu");
}

LanguageModelOptions read_llama_form(ForeignConfig& config, const LlamaDefaults& defaults) {
  using Count = Range<std::int64_t>;
  constexpr Count sizes{1, 1 << 20};
  LanguageModelOptions options;
  options.norm = "rms";
  options.activation = "swiglu";
  options.width = config.whole("hidden_size", defaults.width, sizes);
  options.layers = config.whole("num_hidden_layers", defaults.layers, {1, 10'000});
  options.heads = config.whole("num_attention_heads", defaults.heads, sizes);
  const bool as_many = defaults.key_value_heads == 0 || config.is_null("num_key_value_heads");
  options.key_value_heads =
      config.whole("num_key_value_heads", as_many ? options.heads : defaults.key_value_heads, sizes);
  if (options.key_value_heads == options.heads) options.key_value_heads = 0;
  options.head_dim = config.whole("head_dim", defaults.head_dim, {0, 1 << 20});
  if (options.head_dim * options.heads == options.width) options.head_dim = 0;
  options.feed_forward = config.whole("intermediate_size", defaults.hidden, sizes);
  options.context = config.whole("max_position_embeddings", defaults.context, {1, 1 << 24});
  options.dropout = config.number("attention_dropout", 0, {.min = 0, .max = 1, .max_excluded = true});
  set_norm_epsilon(options,
                   config.number("rms_norm_eps", defaults.norm_epsilon, {.min = 0, .max = 1, .min_excluded = true}));
  options.tied_head = config.yes("tie_word_embeddings", false);
  config.expect("hidden_act", "silu");
  read_rotary(config, options);
  skip_language_keys(config);
  return options;
}

nlohmann::ordered_json llama_form_config(const LanguageModelOptions& options) {
  nlohmann::ordered_json config;
  config["hidden_size"] = options.width;
  config["intermediate_size"] = options.feed_forward_width();
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.heads;
  config["num_key_value_heads"] = key_heads(options);
  config["head_dim"] = options.used_head_dim();
  config["max_position_embeddings"] = options.context;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = used_norm_epsilon(options);
  config["tie_word_embeddings"] = options.tied_head;
  // As transformers 5 has it, and 4.
  config["rope_parameters"] = rotary_object(options);
  config["rope_theta"] = options.rotary_base;
  if (options.rotary_scaling.rule != "none") config["rope_scaling"] = rotary_object(options);
  return config;
}

void expect_llama_form(HeldOptions& held, const LanguageModelOptions& options) {
  held.expect<std::string>("norm", options.norm, {"rms"});
  held.expect<std::string>("activation", options.activation, {"swiglu"});
  held.expect<std::string>("position", options.position, {"rotary", "rotary_halves"});
}

std::int64_t key_heads(const LanguageModelOptions& options) {
  return options.key_value_heads > 0 ? options.key_value_heads : options.heads;
}

std::string our_layer(std::int64_t layer) { return "layers." + std::to_string(layer) + "."; }
std::string llama_layer(std::int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }

Order rotary_order(const LanguageModelOptions& options, std::int64_t heads) {
  return options.position == "rotary" ? adjacent_from_halves(heads, options.used_head_dim()) : Order();
}

void add_llama_form(TensorTable& table, const LanguageModelOptions& options) {
  const std::int64_t width = options.width, hidden = options.feed_forward_width();
  const LinearLayout layout{.bias = options.bias ? Bias::both : Bias::none};
  table.add("token_embedding", {options.vocabulary, width}, "model.embed_tokens.weight");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = our_layer(layer), theirs = llama_layer(layer);
    table.norm(ours + "attention_norm", theirs + "input_layernorm", width, Bias::none);
    table.norm(ours + "feed_forward_norm", theirs + "post_attention_layernorm", width, Bias::none);
    table.linear(ours + "feed_forward.up", {theirs + "mlp.gate_proj", theirs + "mlp.up_proj"}, width, 2 * hidden,
                 layout);
    table.linear(ours + "feed_forward.out", {theirs + "mlp.down_proj"}, hidden, width, layout);
  }
  table.norm("final_norm", "model.norm", width, Bias::none);
  if (options.tied_head)
    table.tied("lm_head.weight", "model.embed_tokens.weight");
  else
    table.add("head.weight", {options.vocabulary, width}, "lm_head.weight");
  table.unused_ending(".rotary_emb.inv_freq");
}

}  // namespace cogwheel::interchange
