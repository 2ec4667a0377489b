#include "cogwheel/tasks/language/language_model_task.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/nn/mixers/causal_convolution.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/passage.h"
#include "cogwheel/text/dataset.h"
#include "cogwheel/text/prepared/utf8_policy.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::tasks::language {

LanguageModelImpl& LanguageModelTask::model_of(torch::nn::Module& model) {
  return dynamic_cast<LanguageModelImpl&>(model);
}

std::int64_t LanguageModelTask::context_of(const torch::nn::Module& model) {
  return dynamic_cast<const LanguageModelImpl&>(model).options().context;
}

void LanguageModelTask::initialize(torch::nn::Module& model, std::uint64_t seed) const {
  model_of(model).initialize(seed);
  lessons_.initialize(model_of(model));
}

std::vector<runs::Phase> LanguageModelTask::phases() const { return lessons_.phases(); }

// Of a transfer the mixers alone.
bool LanguageModelTask::learns(const torch::nn::Module& model, const runs::Phase& phase,
                               const std::string& parameter) const {
  if (!Lessons::is_transfer(phase)) return true;
  for (const auto& module : model.named_modules())
    if (dynamic_cast<const nn::TokenMixer*>(module.value().get()) != nullptr &&
        parameter.starts_with(module.key() + "."))
      return true;
  return false;
}

at::Tensor LanguageModelTask::loss_in(const runs::Phase& phase, torch::nn::Module& model, const runs::Batch& batch,
                                      std::uint64_t dropout_seed) const {
  return Lessons::is_transfer(phase) ? lessons_.transfer_loss(model_of(model), batch)
                                     : loss(model, batch, dropout_seed);
}

runs::TaskOptions LanguageModelTask::completed_options(const runs::TaskOptions& given) const {
  return lessons_.none() ? runs::TaskOptionReader(given).finish() : lessons_.options();
}

void LanguageModelTask::complete_taught_model(runs::RunConfig& config, std::int64_t vocabulary,
                                              const std::string& decided_by, bool may_have_more) const {
  LanguageModelOptions& model = config.model.as<LanguageModelOptions>();
  lessons_.complete(model);
  complete_model(config, vocabulary, decided_by, may_have_more || lessons_.allows_more_words());
  lessons_.complete(model);
}

std::vector<Token> LanguageModelTask::tokens_of_prompt(const text::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<Token> tokens = tokenizer.encode(prompt, "training.prompts");
  if (tokens.empty()) throw UsageError(expected_got("training.prompts", "texts of a token at least", "an empty one"));
  return tokens;
}

std::string LanguageModelTask::continued_text(torch::nn::Module& module, const text::Tokenizer& tokenizer,
                                              const std::string& prompt, std::uint64_t seed) {
  LanguageModel model = nn::holder_of<LanguageModel>(module);
  runs::SamplingOptions options;
  options.temperature = 0.8;
  options.seed = seed;
  options.vocabulary = tokenizer.vocabulary();
  return tokenizer.decode(sample(model, tokens_of_prompt(tokenizer, prompt), options));
}

std::string LanguageModelTask::text_of(const text::Tokenizer& tokenizer, std::span<const Token> tokens,
                                       std::int64_t bytes) {
  const auto most = static_cast<std::size_t>(bytes);
  std::string text = tokenizer.decode(tokens.first(std::min(tokens.size(), most)));
  text.resize(std::min(text.size(), most));
  return text;
}

std::int64_t LanguageModelTask::counted(const runs::Batch& batch) const { return runs::told_targets(batch); }

void LanguageModelTask::expect_shared(const runs::ModelOptions& given, std::int64_t context,
                                      std::int64_t tensor) const {
  const LanguageModelOptions& model = given.as<LanguageModelOptions>();
  const auto expect_multiple = [](const std::string& key, std::int64_t of, std::int64_t value, const std::string& why) {
    if (value % of != 0)
      throw UsageError(expected_got(key, "a multiple of " + std::to_string(of) + why, std::to_string(value)));
  };
  if (lessons_.has_teacher())
    throw UsageError(expected_got(context > 1 ? "parallel.context" : "parallel.tensor", "1 beside task.teacher",
                                  std::to_string(context > 1 ? context : tensor)));
  if (context > 1) {
    // Each rank has two stretches of a text, which convolutions read the ends of.
    constexpr std::int64_t shortest = nn::CausalConvolutionImpl::taps - 1;
    const std::int64_t stretches = 2 * context;
    if (model.context % stretches != 0 || model.context < stretches * shortest)
      throw UsageError(expected_got("model.context",
                                    "a multiple of " + std::to_string(stretches) + " from " +
                                        std::to_string(stretches * shortest) + " on, twice parallel.context",
                                    std::to_string(model.context)));
  }
  expect_multiple("model.feed_forward", tensor, model.feed_forward_width(), ", parallel.tensor");
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string name = layer_mechanism(model, layer);
    const Mechanism& mechanism = find_mechanism(name);
    if (mechanism.recurrent() != nullptr) continue;
    const std::string why = " for " + name + ", whose heads the ranks of " +
                            (tensor > 1 ? "parallel.tensor" : "parallel.context") + " share";
    const std::int64_t shared = tensor * mechanism.sub_heads() * (mechanism.is_matrix() ? context : 1);
    if (tensor == 1 && !mechanism.is_matrix()) continue;
    expect_multiple("model.heads", shared, model.heads, why);
    if (model.key_value_heads > 0) expect_multiple("model.key_value_heads", shared, model.key_value_heads, why);
  }
}

runs::Batch LanguageModelTask::held_out_windows_of(std::int64_t, std::int64_t, std::uint64_t) const {
  throw UsageError(expected_got("task", "one on a text or corpora, which hold some of it out", description().name));
}

at::Tensor LanguageModelTask::loss(torch::nn::Module& module, const runs::Batch& batch,
                                   std::uint64_t dropout_seed) const {
  return lessons_.loss(model_of(module), batch, dropout_seed);
}

void LanguageModelTask::complete_model(runs::RunConfig& config, std::int64_t vocabulary, const std::string& decided_by,
                                       bool may_have_more) {
  LanguageModelOptions& model = config.model.as<LanguageModelOptions>();
  if (!may_have_more || model.vocabulary < vocabulary) runs::set_vocabulary(config, vocabulary, ", as " + decided_by);
  check(model);
  model.feed_forward = model.feed_forward_width();
  config.definition = LayerPattern(model.mechanism).definition();
}

std::int64_t LanguageModelTask::evaluated_sequences(const runs::TrainingOptions& training, runs::EvaluationPart part,
                                                    std::int64_t context, std::int64_t all) {
  return text::limited_window_count(all, context, part == runs::EvaluationPart::curve ? training.curve_tokens : 0);
}

runs::Inspection LanguageModelTask::maps_of(LanguageModel& model, std::span<const Token> tokens,
                                            const std::function<std::string(Token)>& label) {
  runs::Inspection inspection;
  for (const Token token : tokens) inspection.tokens.push_back(label(token));
  inspection.set_maps(attention_maps(model, tokens));
  return inspection;
}

runs::Inspection LanguageModelTask::passage_and_sample(LanguageModel& model, const text::Tokenizer& tokenizer,
                                                       std::span<const Token> passage, std::uint64_t seed) {
  runs::Inspection inspection = maps_of(model, passage, [&](Token token) { return token_label(tokenizer, token); });
  runs::SamplingOptions options;
  options.length = 240;
  options.temperature = 0.8;
  options.seed = seed;
  options.vocabulary = tokenizer.vocabulary();
  inspection.prompt = text::with_invalid_utf8_replaced(tokenizer.decode(passage));
  inspection.sample = text::with_invalid_utf8_replaced(tokenizer.decode(sample(model, passage, options)));
  return inspection;
}

}  // namespace cogwheel::tasks::language
