#include "cogwheel/interchange/transformers_config.h"

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/runs/class_names.h"

namespace cogwheel::interchange {
namespace {

// Of the encoder and the vision transformer.
constexpr double layer_norm_epsilon = 1e-12;

}  // namespace

void read_transformer(ForeignConfig& config, tasks::encoders::EncoderLayerOptions& options,
                      std::vector<std::string>& notes) {
  constexpr Range<double> shares{.min = 0, .max = 1, .max_excluded = true};
  options.width = config.whole("hidden_size", 768, {1, 1 << 20});
  options.layers = config.whole("num_hidden_layers", 12, {1, 10'000});
  options.heads = config.whole("num_attention_heads", 12, {1, 1 << 20});
  options.feed_forward = config.whole("intermediate_size", 3072, {1, 1 << 20});
  options.dropout = config.number("hidden_dropout_prob", 0, shares);
  const double of_weights = config.number("attention_probs_dropout_prob", options.dropout, shares),
               of_classes = config.number("classifier_dropout", options.dropout, shares);
  if (of_weights != options.dropout || of_classes != options.dropout)
    notes.push_back("training here drops a share of " + number_text(options.dropout) +
                    " everywhere, hidden_dropout_prob; the file has others for attention weights or classes");
  config.expect("hidden_act", "gelu");
  config.expect("layer_norm_eps", layer_norm_epsilon);
  config.expect("is_decoder", false);
  config.expect("is_encoder_decoder", false);
  config.expect("add_cross_attention", false);
  config.expect("pruned_heads", nlohmann::json::object());
  config.skip({"transformers_version", "torch_dtype", "dtype", "initializer_range", "use_cache", "finetuning_task",
               "gradient_checkpointing", "output_attentions", "output_hidden_states", "return_dict", "torchscript",
               "chunk_size_feed_forward", "task_specific_params", "tokenizer_class", "attn_implementation"});
}

std::int64_t read_class_count(ForeignConfig& config, const std::vector<std::string>& names) {
  const std::int64_t count =
      config.whole("num_labels", names.empty() ? 2 : std::ssize(names), Range<std::int64_t>{1, 1 << 20});
  config.expect("problem_type", "single_label_classification");
  if (!names.empty() && count != std::ssize(names))
    throw Error(expected_got(config.path().string() + ": num_labels",
                             std::to_string(names.size()) + ", as id2label has", std::to_string(count)));
  if (count == 1)
    throw Error(expected_got(config.path().string() + ": id2label", "at least 2 classes",
                             "1, by which transformers means regression"));
  return count;
}

void add_transformer(nlohmann::ordered_json& config, const tasks::encoders::EncoderLayerOptions& options) {
  config["hidden_size"] = options.width;
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.heads;
  config["intermediate_size"] = options.feed_forward_width();
  config["hidden_act"] = "gelu";
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.dropout;
  config["initializer_range"] = 0.02;
  config["layer_norm_eps"] = layer_norm_epsilon;
  config["torch_dtype"] = "float32";
}

void add_all_class_names(nlohmann::ordered_json& config, const std::filesystem::path& run, std::int64_t count) {
  if (count == 1)
    throw Error(expected_got(run.string(), "at least 2 classes, as 1 means regression to transformers", "1"));
  add_class_names(config, runs::load_class_names(run, count));
}

}  // namespace cogwheel::interchange
