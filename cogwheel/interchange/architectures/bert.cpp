// `BertForMaskedLM` and `BertForSequenceClassification` of Hugging Face's transformers: Devlin et al., "BERT:
// Pre-training of Deep Bidirectional Transformers for Language Understanding" (2019).
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/architectures/bert_vocabulary.h"
#include "cogwheel/interchange/plain_layers.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/tasks/encoders/encoder_options.h"

namespace cogwheel::interchange::bert {
namespace {

constexpr const char *masked_words = "BertForMaskedLM", *sentences = "BertForSequenceClassification";

const tasks::encoders::EncoderOptions& of(const runs::ModelOptions& model) {
  return model.as<tasks::encoders::EncoderOptions>();
}

const char* name_of(const tasks::encoders::EncoderOptions& options) {
  return options.classes > 0 ? sentences : masked_words;
}

bool predicts_words(const runs::ModelOptions& model) {
  return model.get_if<tasks::encoders::EncoderOptions>() != nullptr && of(model).classes == 0;
}
bool classifies(const runs::ModelOptions& model) {
  return model.get_if<tasks::encoders::EncoderOptions>() != nullptr && of(model).classes > 0;
}

TensorTable tensors(const runs::ModelOptions& model) {
  const tasks::encoders::EncoderOptions& options = of(model);
  const std::int64_t width = options.width, hidden = options.feed_forward_width();
  TensorTable table(name_of(options));
  const std::string embeddings = "bert.embeddings.", predictions = "cls.predictions.";
  table.add("token_embedding", {options.vocabulary, width}, embeddings + "word_embeddings.weight");
  table.add("position_embedding", {options.context, width}, embeddings + "position_embeddings.weight");
  table.add("segment_embedding", {options.segments, width}, embeddings + "token_type_embeddings.weight");
  table.norm("embedding_norm", embeddings + "LayerNorm", width);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = "layers." + std::to_string(layer) + ".",
                      theirs = "bert.encoder.layer." + std::to_string(layer) + ".", self = theirs + "attention.self.";
    table.linear(ours + "attention.query_key_value", {self + "query", self + "key", self + "value"}, width, 3 * width);
    table.linear(ours + "attention.output", {theirs + "attention.output.dense"}, width, width);
    table.norm(ours + "attention_norm", theirs + "attention.output.LayerNorm", width);
    table.linear(ours + "feed_forward.up", {theirs + "intermediate.dense"}, width, hidden);
    table.linear(ours + "feed_forward.out", {theirs + "output.dense"}, hidden, width);
    table.norm(ours + "feed_forward_norm", theirs + "output.LayerNorm", width);
  }
  table.renamed("LayerNorm.gamma", "LayerNorm.weight");
  table.renamed("LayerNorm.beta", "LayerNorm.bias");
  table.unused(embeddings + "position_ids");  // 0, 1, 2, …
  if (options.classes > 0) {
    table.linear("pooler", {"bert.pooler.dense"}, width, width);
    table.linear("classifier", {"classifier"}, width, options.classes);
    return table;
  }
  table.linear("word_transform", {predictions + "transform.dense"}, width, width);
  table.norm("word_norm", predictions + "transform.LayerNorm", width);
  table.add("word_bias", {options.vocabulary}, predictions + "bias");
  table.tied(predictions + "decoder.weight", embeddings + "word_embeddings.weight");
  table.tied(predictions + "decoder.bias", predictions + "bias");
  // Of the published weights, which also learned whether one sentence follows another.
  table.unused("bert.pooler.");
  table.unused("cls.seq_relationship.");
  return table;
}

ForeignModel read_model(ForeignConfig& config, const std::filesystem::path& folder, bool classes) {
  config.expect("model_type", "bert");
  config.expect("position_embedding_type", "absolute");
  ForeignModel read;
  tasks::encoders::EncoderOptions options;
  options.vocabulary = config.whole("vocab_size", 30522, text::WordPieceTokenizer::vocabularies);
  options.context = config.whole("max_position_embeddings", 512, {1, 1 << 20});
  options.segments = config.whole("type_vocab_size", 2, {1, 1 << 10});
  read_transformer(config, options, read.notes);
  config.skip({"pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "directionality",
               "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type"});
  const std::vector<std::string> names = config.class_names();
  if (classes) {
    config.skip({"tie_word_embeddings"});
    options.classes = read_class_count(config, names);
    read.files.push_back(class_names_file(names, options.classes));
  } else {
    config.expect("tie_word_embeddings", true);
    config.skip({"num_labels", "problem_type"});
  }
  const auto tokenizer = read_bert_vocabulary(folder, options.vocabulary);
  read.files.push_back({runs::tokenizer_file, tokenizer->to_json()});
  read.config.task.name = classes ? "sentences" : "masked_words";
  read.config.model = options;
  return read;
}

ForeignModel read_masked_words(ForeignConfig& config, const std::filesystem::path& folder) {
  return read_model(config, folder, false);
}
ForeignModel read_sentences(ForeignConfig& config, const std::filesystem::path& folder) {
  return read_model(config, folder, true);
}

WrittenModel write(ModelToWrite& model) {
  const runs::RunConfig& run = model.config;
  const std::filesystem::path& folder = model.run;
  const tasks::encoders::EncoderOptions& options = of(run.model);
  const char* const name = name_of(options);
  const auto tokenizer = text::load_word_piece(folder / runs::tokenizer_file);
  if (tokenizer->vocabulary() != options.vocabulary)
    throw Error(expected_got((folder / runs::tokenizer_file).string(),
                             std::to_string(options.vocabulary) + " pieces, as model.vocabulary says",
                             std::to_string(tokenizer->vocabulary())));
  nlohmann::ordered_json config = {{"architectures", {name}}, {"model_type", "bert"}};
  add_transformer(config, options);
  config["vocab_size"] = options.vocabulary;
  config["max_position_embeddings"] = options.context;
  config["type_vocab_size"] = options.segments;
  config["position_embedding_type"] = "absolute";
  config["pad_token_id"] = tokenizer->specials().padding;
  config["tie_word_embeddings"] = true;
  if (options.classes > 0) add_all_class_names(config, folder, options.classes);
  std::vector<runs::RunFile> files = bert_vocabulary_files(*tokenizer, options.context);
  files.push_back({config_file, config.dump(2) + "\n"});
  return {.files = std::move(files)};
}

std::string lack(const runs::ModelOptions& model) { return lack_of_layers(of(model), name_of(of(model))); }

}  // namespace
}  // namespace cogwheel::interchange::bert

namespace cogwheel::interchange {

Architecture bert_for_masked_lm() {
  return {bert::masked_words,   "an encoder that predicts hidden words (transformers)",
          bert::predicts_words, bert::lack,
          bert::tensors,        bert::read_masked_words,
          bert::write};
}

Architecture bert_for_sequence_classification() {
  return {bert::sentences,  "an encoder that classifies sentences (transformers)",
          bert::classifies, bert::lack,
          bert::tensors,    bert::read_sentences,
          bert::write};
}

}  // namespace cogwheel::interchange
