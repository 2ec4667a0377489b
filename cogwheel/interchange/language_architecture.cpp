#include "cogwheel/interchange/language_architecture.h"

#include <fmt/format.h>

#include <utility>

#include "cogwheel/interchange/added_rows.h"
#include "cogwheel/interchange/language_tokenizer.h"
#include "cogwheel/interchange/transformers_config.h"

namespace cogwheel::interchange {
const LanguageModelOptions* language_options(const runs::ModelOptions& model) {
  return model.get_if<LanguageModelOptions>();
}

void HeldOptions::refuse(std::string_view key, std::string_view expected, std::string_view got) {
  if (lack_.empty())
    lack_ = expected_got(fmt::format("model.{}", key), fmt::format("{}, as in every {}", expected, architecture_), got);
}

void HeldOptions::expect_mechanism(const std::string& name) {
  for (std::int64_t layer = 0; layer < options_.layers; ++layer)
    if (const std::string found = tasks::language::layer_mechanism(options_, layer); found != name)
      return refuse(fmt::format("mechanism of layer {}", layer), name, found);
}

double used_norm_epsilon(const LanguageModelOptions& options) {
  return options.norm_epsilon > 0 ? options.norm_epsilon : default_epsilon(tasks::language::norm_kind(options));
}

double used_head_norm_epsilon(const LanguageModelOptions& options) {
  return options.head_norm_epsilon > 0 ? options.head_norm_epsilon : nn::default_head_norm_epsilon;
}

void set_norm_epsilon(LanguageModelOptions& options, double epsilon) {
  options.norm_epsilon = epsilon == default_epsilon(tasks::language::norm_kind(options)) ? 0 : epsilon;
}

void set_head_norm_epsilon(LanguageModelOptions& options, double epsilon) {
  options.head_norm_epsilon = epsilon == nn::default_head_norm_epsilon ? 0 : epsilon;
}

void skip_language_keys(ForeignConfig& config) {
  config.skip({"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "torch_dtype", "dtype",
               "initializer_range", "use_cache", "tokenizer_class", "attn_implementation", "pretraining_tp",
               "gradient_checkpointing", "output_attentions", "output_hidden_states", "return_dict", "torchscript",
               "chunk_size_feed_forward", "task_specific_params", "id2label", "label2id", "num_labels",
               // What published files have beside: of SmolLM, the first LLaMA, GPT-2 medium and XL, and by Unsloth.
               "is_llama_config", "transformers.js_config", "max_sequence_length", "n_special",
               "predict_special_tokens", "output_past", "unsloth_fixed", "unsloth_version"});
  config.expect("is_decoder", false);
  config.expect("is_encoder_decoder", false);
  config.expect("add_cross_attention", false);
}

ForeignModel language_run(const LanguageModelOptions& options, const std::filesystem::path& folder,
                          std::vector<std::string> notes) {
  ForeignModel read;
  ImportedTokenizer tokenizer = read_language_tokenizer(folder, options.vocabulary);
  read.files = std::move(tokenizer.files);
  read.notes = std::move(notes);
  read.notes.insert(read.notes.end(), tokenizer.notes.begin(), tokenizer.notes.end());
  read.config.task.name = runs::TaskOptions{}.name;
  if (!tokenizer.kind.empty()) read.config.data.tokenizer = tokenizer.kind;
  read.config.model = options;
  return read;
}

WrittenModel written_language_model(std::string_view architecture, std::string_view model_type,
                                    nlohmann::ordered_json config, ModelToWrite& model) {
  const LanguageModelOptions& options = *language_options(model.config.model);
  ExportedTokenizer tokenizer = language_tokenizer_files(model.run, options.vocabulary, options.context);
  if (tokenizer.added_rows > 0) add_rows(model, tokenizer.added_rows);
  nlohmann::ordered_json whole = {{"architectures", {architecture}}, {"model_type", model_type}};
  whole["vocab_size"] = language_options(model.config.model)->vocabulary;
  whole.update(config);
  const auto token = [](const std::optional<Token>& id) {
    return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json();
  };
  whole["bos_token_id"] = token(tokenizer.beginning);
  whole["eos_token_id"] = token(tokenizer.end);
  whole["pad_token_id"] = nlohmann::ordered_json();
  whole["initializer_range"] = 0.02;
  whole["torch_dtype"] = "float32";
  WrittenModel written{.files = std::move(tokenizer.files), .notes = std::move(tokenizer.notes)};
  written.files.push_back({config_file, whole.dump(2) + "\n"});
  return written;
}

}  // namespace cogwheel::interchange
