// Llama and what is Llama with one thing more, in Hugging Face's transformers: Touvron et al., "LLaMA: Open and
// Efficient Foundation Language Models" (2023); Jiang et al., "Mistral 7B" (2023), with a window; Yang et al., "Qwen2
// Technical Report" (2024), with biases of queries, keys and values; the same, "Qwen3 Technical Report" (2025), with
// norms of queries and keys.
#include <utility>

#include "cogwheel/interchange/architectures/llama_form.h"
#include "cogwheel/interchange/language_architecture.h"

namespace cogwheel::interchange::llama {
namespace {

struct Relative {
  const char *name, *model_type, *summary;
  LlamaDefaults defaults;
  std::int64_t vocabulary = 32000;  // of a file that does not say
  bool has_biases = false;          // one switch each for attention and the feed-forward
  bool projection_bias = false;
  bool query_key_norm = false;
  bool has_window = false;
  bool switches_window = false;  // by use_sliding_window
};

constexpr Relative llama{.name = "LlamaForCausalLM",
                         .model_type = "llama",
                         .summary = "a language model with rotary positions, RMSNorm and SwiGLU (transformers)",
                         .defaults = {4096, 11008, 32, 32, 0, 2048, 0},
                         .has_biases = true};
constexpr Relative mistral{.name = "MistralForCausalLM",
                           .model_type = "mistral",
                           .summary = "Llama with a window (transformers)",
                           .defaults = {4096, 14336, 32, 32, 8, 131072, 0},
                           .has_window = true};
constexpr Relative qwen2{.name = "Qwen2ForCausalLM",
                         .model_type = "qwen2",
                         .summary = "Llama with biases of queries, keys and values (transformers)",
                         .defaults = {4096, 22016, 32, 32, 32, 32768, 0},
                         .vocabulary = 151936,
                         .projection_bias = true,
                         .has_window = true,
                         .switches_window = true};
constexpr Relative qwen3{.name = "Qwen3ForCausalLM",
                         .model_type = "qwen3",
                         .summary = "Llama with norms of queries and keys (transformers)",
                         .defaults = {4096, 22016, 32, 32, 32, 32768, 128},
                         .vocabulary = 151936,
                         .query_key_norm = true,
                         .has_window = true,
                         .switches_window = true};

const LanguageModelOptions& of(const runs::ModelOptions& model) { return *language_options(model); }

// The window of all layers, 0: none. Others than one for all are refused.
std::int64_t read_window(ForeignConfig& config, const Relative& relative, std::int64_t layers) {
  constexpr std::int64_t default_window = 4096, default_first = 28;
  const bool is_null = config.is_null("sliding_window");
  const std::int64_t window = config.whole("sliding_window", default_window, {1, std::int64_t{1} << 40});
  const std::vector<std::string> types = config.words("layer_types", {"full_attention", "sliding_attention"});
  bool slides = !is_null;
  if (relative.switches_window) {
    slides = config.yes("use_sliding_window", false) && !is_null;
    const std::int64_t first = config.whole("max_window_layers", default_first, {0, 1 << 20});
    if (!types.empty()) {
      slides = types.front() == "sliding_attention";
      for (const std::string& type : types)
        if (type != types.front()) config.refuse("layer_types", "the same in every layer", "others");
      if (slides && is_null) config.refuse("sliding_window", "a number beside sliding layers", "null");
    } else if (slides && first > 0) {
      if (first < layers)
        config.refuse("max_window_layers", "0, a window in every layer, or as many as there are layers",
                      std::to_string(first));
      slides = false;
    }
  } else {
    const std::string expected = slides ? "sliding_attention" : "full_attention";
    for (const std::string& type : types)
      if (type != expected) config.refuse("layer_types", expected + " in every layer, as sliding_window says", type);
  }
  return slides ? window : 0;
}

ForeignModel read_relative(ForeignConfig& config, const std::filesystem::path& folder, const Relative& relative) {
  config.expect("model_type", relative.model_type);
  LanguageModelOptions options = read_llama_form(config, relative.defaults);
  options.vocabulary = config.whole("vocab_size", relative.vocabulary, {1, 1 << 24});
  if (relative.has_window) options.window = read_window(config, relative, options.layers);
  if (relative.has_biases) {
    options.bias = config.yes("attention_bias", false);
    if (config.yes("mlp_bias", false) != options.bias)
      config.refuse("mlp_bias", "the same as attention_bias", options.bias ? "false" : "true");
    options.head_bias = !options.bias;
  } else {
    config.expect("attention_bias", false);
  }
  options.projection_bias = relative.projection_bias;
  options.query_key_norm = relative.query_key_norm;
  return language_run(options, folder);
}

TensorTable tensors_of(const runs::ModelOptions& model, const Relative& relative) {
  const LanguageModelOptions& options = of(model);
  TensorTable table(relative.name);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = our_layer(layer) + "attention.", theirs = llama_layer(layer) + "self_attn.";
    const std::int64_t head_dim = options.used_head_dim(), heads = options.heads, shared = key_heads(options);
    const auto order = [&](std::int64_t count) { return rotary_order(options, count); };
    table.linear(ours + "query_key_value",
                 {{theirs + "q_proj", heads * head_dim, order(heads)},
                  {theirs + "k_proj", shared * head_dim, order(shared)},
                  {theirs + "v_proj", shared * head_dim}},
                 options.width, {.bias = options.bias || options.projection_bias ? Bias::both : Bias::none});
    table.linear(ours + "output", {theirs + "o_proj"}, heads * head_dim, options.width,
                 {.bias = options.bias ? Bias::both : Bias::none});
    if (!options.query_key_norm) continue;
    table.add(ours + "query_norm", {head_dim}, theirs + "q_norm.weight", {}, order(1));
    table.add(ours + "key_norm", {head_dim}, theirs + "k_norm.weight", {}, order(1));
  }
  add_llama_form(table, options);
  return table;
}

std::string lack_of(const runs::ModelOptions& model, const Relative& relative) {
  const LanguageModelOptions& options = of(model);
  HeldOptions held(options, relative.name);
  held.expect_mechanism("softmax");
  expect_llama_form(held, options);
  held.expect("query_key_norm", options.query_key_norm, {relative.query_key_norm});
  held.expect("bias", options.bias, relative.has_biases ? std::vector<bool>{false, true} : std::vector<bool>{false});
  if (options.bias && !options.tied_head) held.expect("head_bias", options.head_bias, {false});
  if (!options.bias) held.expect("projection_bias", options.projection_bias, {relative.projection_bias});
  if (!relative.has_window) held.expect("window", options.window, {std::int64_t{0}});
  // Of Llama's heads transformers says that they divide the width, and Qwen 2 has no head_dim.
  if (&relative == &llama && options.width % options.heads != 0)
    held.refuse("heads", "a divisor of the width", std::to_string(options.heads));
  if (&relative == &qwen2 && options.width != options.heads * options.used_head_dim())
    held.refuse("head_dim", "width / heads", std::to_string(options.head_dim));
  return held.lack();
}

WrittenModel write_relative(ModelToWrite& model, const Relative& relative) {
  const LanguageModelOptions& options = of(model.config.model);
  nlohmann::ordered_json config = llama_form_config(options);
  config["attention_dropout"] = options.dropout;
  if (relative.has_biases) config["attention_bias"] = config["mlp_bias"] = options.bias;
  if (relative.has_window) {
    config["sliding_window"] = options.window > 0 ? nlohmann::ordered_json(options.window) : nlohmann::ordered_json();
    if (relative.switches_window) {
      config["use_sliding_window"] = options.window > 0;
      config["max_window_layers"] = options.window > 0 ? 0 : options.layers;
      config["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(options.layers),
                                                       options.window > 0 ? "sliding_attention" : "full_attention");
    }
  }
  return written_language_model(relative.name, relative.model_type, std::move(config), model);
}

template <const Relative& relative>
Architecture architecture() {
  return {.name = relative.name,
          .summary = relative.summary,
          .is = is_llama_form,
          .lack = [](const runs::ModelOptions& model) { return lack_of(model, relative); },
          .tensors = [](const runs::ModelOptions& model) { return tensors_of(model, relative); },
          .read = [](ForeignConfig& config,
                     const std::filesystem::path& folder) { return read_relative(config, folder, relative); },
          .write = [](ModelToWrite& model) { return write_relative(model, relative); },
          .is_language_model = true};
}

}  // namespace
}  // namespace cogwheel::interchange::llama

namespace cogwheel::interchange {

Architecture llama_for_causal_lm() { return llama::architecture<llama::llama>(); }
Architecture mistral_for_causal_lm() { return llama::architecture<llama::mistral>(); }
Architecture qwen2_for_causal_lm() { return llama::architecture<llama::qwen2>(); }
Architecture qwen3_for_causal_lm() { return llama::architecture<llama::qwen3>(); }

}  // namespace cogwheel::interchange
