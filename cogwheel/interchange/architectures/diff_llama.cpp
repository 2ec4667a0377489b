// `DiffLlamaForCausalLM` of Hugging Face's transformers: Llama with the attention of Ye et al., "Differential
// Transformer" (2024).
//
// The two maps of a head are sub-heads h and h + heads/2 there, and 2h and 2h + 1 here; keys lie alike, and a value is
// that of two heads of values. The norm of a head has no gain there, and its ε is that of all norms.
#include "cogwheel/interchange/architectures/llama_form.h"
#include "cogwheel/interchange/language_architecture.h"

namespace cogwheel::interchange::diff_llama {
namespace {

constexpr const char *name = "DiffLlamaForCausalLM", *model_type = "diffllama";
constexpr LlamaDefaults defaults{2048, 8192, 16, 32, 0, 2048, 0, 1e-5};

ForeignModel read(ForeignConfig& config, const std::filesystem::path& folder) {
  config.expect("model_type", model_type);
  LanguageModelOptions options = read_llama_form(config, defaults);
  options.mechanism = "differential";
  options.vocabulary = config.whole("vocab_size", 32000, {1, 1 << 24});
  set_head_norm_epsilon(options, used_norm_epsilon(options));
  config.expect("attention_bias", false);
  config.skip({"lambda_std_dev"});
  return language_run(options, folder);
}

TensorTable tensors(const runs::ModelOptions& model) {
  const LanguageModelOptions& options = *language_options(model);
  const std::int64_t head_dim = options.used_head_dim(), heads = options.heads, shared = key_heads(options);
  const auto turned = [&](std::int64_t count) {
    const Order order = rotary_order(options, count), pairs = paired_from_halves(count, head_dim);
    return order.empty() ? pairs : composed(order, pairs);
  };
  TensorTable table(name);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = our_layer(layer) + "attention.", theirs = llama_layer(layer) + "self_attn.";
    table.linear(ours + "query_key_value",
                 {{theirs + "q_proj", heads * head_dim, turned(heads)},
                  {theirs + "k_proj", shared * head_dim, turned(shared)},
                  {theirs + "v_proj", shared * head_dim, paired_from_halves(shared, head_dim)}},
                 options.width, {.bias = Bias::none});
    table.gain(ours + "head_norm", 2 * head_dim);
    table.linear(ours + "output", {theirs + "o_proj"}, heads * head_dim, options.width,
                 {.bias = Bias::none, .gain = ours + "head_norm"});
    for (const char* const part : {"1", "2"}) {
      table.add(ours + "lambda_query" + part, {head_dim}, theirs + "lambda_q" + part);
      table.add(ours + "lambda_key" + part, {head_dim}, theirs + "lambda_k" + part);
    }
  }
  add_llama_form(table, options);
  return table;
}

std::string lack(const runs::ModelOptions& model) {
  const LanguageModelOptions& options = *language_options(model);
  HeldOptions held(options, name);
  held.expect_mechanism("differential");
  expect_llama_form(held, options);
  held.expect("bias", options.bias, {false});
  held.expect("projection_bias", options.projection_bias, {false});
  held.expect("query_key_norm", options.query_key_norm, {false});
  held.expect("window", options.window, {std::int64_t{0}});
  held.expect("first_lambda_depth", options.first_lambda_depth, {std::int64_t{0}});
  if (used_norm_epsilon(options) != used_head_norm_epsilon(options))
    held.refuse("head_norm_epsilon", number_text(used_norm_epsilon(options)) + " for every norm",
                number_text(used_head_norm_epsilon(options)));
  return held.lack();
}

WrittenModel write(ModelToWrite& model) {
  const LanguageModelOptions& options = *language_options(model.config.model);
  nlohmann::ordered_json config = llama_form_config(options);
  config["attention_bias"] = false;
  config["attention_dropout"] = 0.0;  // no other is known there
  WrittenModel written = written_language_model(name, model_type, std::move(config), model);
  if (options.dropout > 0) written.notes.push_back("DiffLlama has no dropout: there it trains without");
  return written;
}

}  // namespace
}  // namespace cogwheel::interchange::diff_llama

namespace cogwheel::interchange {

Architecture diff_llama_for_causal_lm() {
  return {diff_llama::name,    "Llama with differential attention (transformers)",
          is_llama_form,       diff_llama::lack,
          diff_llama::tensors, diff_llama::read,
          diff_llama::write,   true};
}

}  // namespace cogwheel::interchange
