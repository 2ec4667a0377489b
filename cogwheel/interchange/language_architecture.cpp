#include "cogwheel/interchange/language_architecture.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <utility>

#include "cogwheel/core/range.h"
#include "cogwheel/interchange/language_tokenizer.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interchange {
namespace {

using tasks::language::layer_mechanism;

nn::TransformerBlockOptions first_layer(const LanguageModelOptions& options) {
  return tasks::language::layer_options(options, 0);
}

// Rows as language_tokenizer.h says: the mean of all, with a bias that keeps their token from being drawn.
void add_rows(ModelToWrite& model, std::int64_t count) {
  constexpr double never = -10'000;
  const auto grown = [&](const char* name, const auto& row) {
    const auto found = model.weights.find(name);
    if (found == model.weights.end()) return;
    std::vector<at::Tensor> parts{found->second};
    for (std::int64_t added = 0; added < count; ++added) parts.push_back(row(found->second));
    found->second = at::cat(parts);
  };
  const auto mean = [](const at::Tensor& rows) { return rows.mean(at::IntArrayRef{0}, true); };
  grown("token_embedding", mean);
  grown("head.weight", mean);
  grown("head.bias", [&](const at::Tensor& biases) { return at::full({1}, never, biases.options()); });
  model.config.model.as<LanguageModelOptions>().vocabulary += count;
}

}  // namespace

const LanguageModelOptions* language_options(const runs::ModelOptions& model) {
  return model.get_if<LanguageModelOptions>();
}

void HeldOptions::refuse(std::string_view key, std::string_view expected, std::string_view got) {
  if (lack_.empty())
    lack_ = expected_got(fmt::format("model.{}", key), fmt::format("{}, as in every {}", expected, architecture_), got);
}

void HeldOptions::expect_mechanism(const std::string& name) {
  for (std::int64_t layer = 0; layer < options_.layers; ++layer)
    if (const std::string found = layer_mechanism(options_, layer); found != name)
      return refuse(fmt::format("mechanism of layer {}", layer), name, found);
}

double used_norm_epsilon(const LanguageModelOptions& options) {
  const nn::TransformerBlockOptions block = first_layer(options);
  return block.norm_epsilon.value_or(default_epsilon(block.norm));
}

double used_head_norm_epsilon(const LanguageModelOptions& options) {
  return first_layer(options).attention.head_norm_epsilon;
}

void set_norm_epsilon(LanguageModelOptions& options, double epsilon) {
  options.norm_epsilon = 0;
  if (used_norm_epsilon(options) != epsilon) options.norm_epsilon = epsilon;
}

void set_head_norm_epsilon(LanguageModelOptions& options, double epsilon) {
  options.head_norm_epsilon = 0;
  if (used_head_norm_epsilon(options) != epsilon) options.head_norm_epsilon = epsilon;
}

void skip_language_keys(ForeignConfig& config) {
  config.skip({"bos_token_id",
               "eos_token_id",
               "pad_token_id",
               "transformers_version",
               "torch_dtype",
               "dtype",
               "initializer_range",
               "use_cache",
               "tokenizer_class",
               "attn_implementation",
               "pretraining_tp",
               "gradient_checkpointing",
               "output_attentions",
               "output_hidden_states",
               "return_dict",
               "torchscript",
               "chunk_size_feed_forward",
               "task_specific_params",
               "id2label",
               "label2id",
               "num_labels"});
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
