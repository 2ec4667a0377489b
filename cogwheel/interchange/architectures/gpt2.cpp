// `GPT2LMHeadModel` of Hugging Face's transformers: Radford et al., "Language Models are Unsupervised Multitask
// Learners" (2019). Its matrices are transposed, and every linear layer and norm has a bias.
#include <fmt/format.h>

#include "cogwheel/interchange/language_architecture.h"

namespace cogwheel::interchange::gpt2 {
namespace {

constexpr const char *name = "GPT2LMHeadModel", *model_type = "gpt2", *beginning = "transformer.";

// Of a configuration that does not say.
constexpr std::int64_t default_vocabulary = 50257, default_context = 1024, default_width = 768, default_depth = 12;
constexpr double default_dropout = 0.1;

bool is_of_kind(const runs::ModelOptions& model) {
  const LanguageModelOptions* const options = language_options(model);
  return options != nullptr && options->norm == "layer" && options->activation != "swiglu";
}

ForeignModel read(ForeignConfig& config, const std::filesystem::path& folder) {
  constexpr Range<double> shares{.min = 0, .max = 1, .max_excluded = true};
  config.expect("model_type", model_type);
  LanguageModelOptions options;
  options.bias = true;
  options.head_bias = false;
  options.vocabulary = config.whole("vocab_size", default_vocabulary, {1, 1 << 24});
  options.context = config.whole("n_positions", default_context, {1, 1 << 24});
  options.width = config.whole("n_embd", default_width, {1, 1 << 20});
  options.layers = config.whole("n_layer", default_depth, {1, 10'000});
  options.heads = config.whole("n_head", default_depth, {1, 1 << 20});
  options.feed_forward = config.whole("n_inner", 4 * options.width, {1, 1 << 20});
  const std::string activation =
      config.word("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh", "gelu"});
  options.activation = activation == "gelu" ? "gelu" : "gelu_tanh";
  set_norm_epsilon(options, config.number("layer_norm_epsilon", 1e-5, {.min = 0, .max = 1, .min_excluded = true}));
  options.tied_head = config.yes("tie_word_embeddings", true);
  options.dropout = config.number("resid_pdrop", default_dropout, shares);
  std::vector<std::string> notes;
  for (const char* const other : {"embd_pdrop", "attn_pdrop"})
    if (config.number(other, default_dropout, shares) != options.dropout)
      notes.push_back(fmt::format("training here drops a share of {} everywhere, resid_pdrop; {} is another",
                                  number_text(options.dropout), other));
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.skip({"reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj", "summary_activation",
               "summary_proj_to_labels", "summary_first_dropout"});
  skip_language_keys(config);
  return language_run(options, folder, std::move(notes));
}

TensorTable tensors(const runs::ModelOptions& model) {
  const LanguageModelOptions& options = *language_options(model);
  const std::int64_t width = options.width, hidden = options.feed_forward_width();
  const auto layout = [](bool has_bias) -> LinearLayout {
    return {.bias = has_bias ? Bias::both : Bias::theirs, .transposed = true};
  };
  const Bias norms = options.bias ? Bias::both : Bias::theirs;
  const std::string embedding = std::string(beginning) + "wte.weight";
  TensorTable table(name);
  table.add("token_embedding", {options.vocabulary, width}, embedding);
  table.add("position_embedding", {options.context, width}, std::string(beginning) + "wpe.weight");
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = fmt::format("layers.{}.", layer), theirs = fmt::format("{}h.{}.", beginning, layer);
    table.norm(ours + "attention_norm", theirs + "ln_1", width, norms);
    table.linear(ours + "attention.query_key_value", {theirs + "attn.c_attn"}, width, 3 * width,
                 layout(options.bias || options.projection_bias));
    table.linear(ours + "attention.output", {theirs + "attn.c_proj"}, width, width, layout(options.bias));
    table.norm(ours + "feed_forward_norm", theirs + "ln_2", width, norms);
    table.linear(ours + "feed_forward.up", {theirs + "mlp.c_fc"}, width, hidden, layout(options.bias));
    table.linear(ours + "feed_forward.out", {theirs + "mlp.c_proj"}, hidden, width, layout(options.bias));
  }
  table.norm("final_norm", std::string(beginning) + "ln_f", width, norms);
  if (options.tied_head)
    table.tied("lm_head.weight", embedding);
  else
    table.add("head.weight", {options.vocabulary, width}, "lm_head.weight");
  table.may_lack_beginning(beginning);
  // Older files have the mask of causal attention.
  table.unused_ending(".attn.bias");
  table.unused_ending(".attn.masked_bias");
  return table;
}

std::string lack(const runs::ModelOptions& model) {
  const LanguageModelOptions& options = *language_options(model);
  HeldOptions held(options, name);
  held.expect_mechanism("softmax");
  held.expect<std::string>("norm", options.norm, {"layer"});
  held.expect<std::string>("activation", options.activation, {"gelu", "gelu_tanh"});
  held.expect<std::string>("position", options.position, {"learned"});
  if (options.key_value_heads != options.heads)
    held.expect("key_value_heads", options.key_value_heads, {std::int64_t{0}});
  if (options.used_head_dim() * options.heads != options.width)
    held.expect("head_dim", options.head_dim, {std::int64_t{0}});
  held.expect("window", options.window, {std::int64_t{0}});
  held.expect("query_key_norm", options.query_key_norm, {false});
  if (options.bias && !options.tied_head) held.expect("head_bias", options.head_bias, {false});
  return held.lack();
}

WrittenModel write(ModelToWrite& model) {
  const LanguageModelOptions& options = *language_options(model.config.model);
  nlohmann::ordered_json config;
  config["n_positions"] = options.context;
  config["n_embd"] = options.width;
  config["n_layer"] = options.layers;
  config["n_head"] = options.heads;
  config["n_inner"] = options.feed_forward_width();
  config["activation_function"] = options.activation == "gelu" ? "gelu" : "gelu_new";
  config["layer_norm_epsilon"] = used_norm_epsilon(options);
  for (const char* const key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[key] = options.dropout;
  config["tie_word_embeddings"] = options.tied_head;
  return written_language_model(name, model_type, std::move(config), model);
}

}  // namespace
}  // namespace cogwheel::interchange::gpt2

namespace cogwheel::interchange {

Architecture gpt2_lm_head_model() {
  return {gpt2::name,       "a language model with learned positions, LayerNorm and GELU (transformers)",
          gpt2::is_of_kind, gpt2::lack,
          gpt2::tensors,    gpt2::read,
          gpt2::write,      true};
}

}  // namespace cogwheel::interchange
