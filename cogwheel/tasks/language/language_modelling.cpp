#include "cogwheel/tasks/language/language_modelling.h"

#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/default_task.h"
#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/corpus_modelling.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/language/narrowing_cost.h"
#include "cogwheel/tasks/language/passage.h"
#include "cogwheel/tasks/language/text_samples.h"
#include "cogwheel/tasks/language/windows.h"
#include "cogwheel/text/corpus.h"
#include "cogwheel/text/text_record.h"

namespace cogwheel::tasks::language {
namespace {

class LanguageModelling : public LanguageModelTask {
 public:
  LanguageModelling(std::shared_ptr<const text::Dataset> data, std::vector<std::string> text, std::int64_t byte_limit,
                    Lessons lessons)
      : LanguageModelTask(std::move(lessons)),
        data_(std::move(data)),
        text_(std::move(text)),
        byte_limit_(byte_limit),
        description_(runs::describe_language_modelling(runs::item_of(data_->tokenizer->kind()))) {}

  const runs::TaskDescription& description() const override { return description_; }

  runs::DataFacts data(const runs::ModelOptions& model, const runs::TrainingOptions& training) const override {
    const std::int64_t context = runs::common(model).context;
    return {.name = data_->name,
            .tokenizer = std::string(data_->tokenizer->kind()),
            .sha256 = data_->sha256,
            .text = text_,
            .byte_limit = byte_limit_,
            .bytes = data_->bytes,
            .vocabulary = std::max(data_->tokenizer->vocabulary(), lessons().vocabulary()),
            .train_tokens = std::ssize(data_->training),
            .held_out_tokens = std::ssize(data_->held_out),
            .evaluated_tokens = text::held_out_window_count(*data_, context) * context,
            .curve_tokens = text::held_out_window_count(*data_, context, training.curve_tokens) * context,
            .window = context};
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    config.task = completed_options(config.task);
    complete_taught_model(config, data_->tokenizer->vocabulary(), "the tokenizer", data_->kept_tokenizer);
    for (auto& path : config.data.text) path = runs::recorded_path(path, "data.text");
    config.data.tokenizer = data_->tokenizer->kind();
    config.data.sha256 = data_->sha256;
    return config;
  }

  std::vector<runs::RunFile> assets() const override { return {{runs::tokenizer_file, data_->tokenizer->to_json()}}; }
  std::vector<runs::RunFile> records() const override { return {{runs::text_file, text::text_record(*data_)}}; }
  std::string left_out() const override { return text::left_out_text(*data_); }

  runs::Batch batch(const torch::nn::Module& model, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const std::int64_t context = context_of(model);
    const Windows windows = training_windows(*data_, context, training.batch, training.seed, place.batches);
    return {windows.inputs, windows.targets, training.batch * context};
  }

  void expect_continuable(const std::string& prompt) const override { tokens_of_prompt(*data_->tokenizer, prompt); }

  std::string continued(torch::nn::Module& module, const std::string& prompt, std::uint64_t seed) const override {
    return continued_text(module, *data_->tokenizer, prompt, seed);
  }

  std::string held_out_text(std::int64_t bytes) const override {
    return text_of(*data_->tokenizer, data_->held_out, bytes);
  }

  runs::MeasuredValues evaluate(torch::nn::Module& model, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const Windows windows =
        held_out_windows(*data_, context_of(model), part == runs::EvaluationPart::curve ? training.curve_tokens : 0);
    const std::vector<double> means =
        runs::mean_in_parts({windows.inputs, windows.targets}, heads,
                            [&](const runs::Batch& some, const nn::ForwardContext& context) -> runs::PartialMeans {
                              return {{model_of(model).loss(some.inputs, some.targets, context).item<double>()},
                                      double(some.inputs.size(0))};
                            });
    return {{description_.decisive().name, means.front()}};
  }

  runs::Batch held_out_windows_of(std::int64_t context, std::int64_t tokens, std::uint64_t) const override {
    const Windows found = held_out_windows(*data_, context, tokens);
    return {found.inputs, found.targets};
  }

  runs::NarrowingCost narrowing_cost(torch::nn::Module& module, const runs::TrainingOptions& training,
                                     const runs::KeptNumbers& kept) const override {
    LanguageModel model = nn::holder_of<LanguageModel>(module);
    const auto windows = [&](std::int64_t tokens) {
      return held_out_windows_of(context_of(module), tokens, training.seed);
    };
    runs::NarrowingCost cost{.kept = kept};
    if (kept.narrow()) cost = language::narrowing_cost(model, windows(narrowing_cost_tokens), kept);
    if (kept.sink >= 0) cost.past_context = losses_past_context(model, windows(0), kept);
    return cost;
  }

  // The maps of every layer and head for a passage of the held-out part, and the text that the model generates after
  // it.
  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t seed,
                           const runs::ThoroughInspection*) const override {
    LanguageModel model = nn::holder_of<LanguageModel>(module);
    const std::vector<Token> passage = choose_passage(*data_, model->options().context);
    return passage_and_sample(model, *data_->tokenizer, passage, seed);
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated_tokens) const override {
    auto part = std::make_shared<text::Dataset>(*data_);
    // One more token: the target of the last input.
    part->held_out.resize(std::min(part->held_out.size(), static_cast<std::size_t>(evaluated_tokens + 1)));
    return make_language_modelling(std::move(part), text_, byte_limit_, lessons());
  }

  // The last tenth of the training part takes the place of the held-out part.
  std::shared_ptr<const runs::Task> for_tuning() const override {
    auto split = std::make_shared<text::Dataset>(*data_);
    const std::size_t start = data_->training.size() * 9 / 10;
    const std::size_t count = std::min(data_->training.size() - start, data_->held_out.size());
    split->training.resize(start);
    split->held_out.assign(data_->training.begin() + static_cast<std::ptrdiff_t>(start),
                           data_->training.begin() + static_cast<std::ptrdiff_t>(start + count));
    return make_language_modelling(std::move(split), text_, byte_limit_, lessons());
  }

 private:
  std::shared_ptr<const text::Dataset> data_;
  std::vector<std::string> text_;
  std::int64_t byte_limit_;
  runs::TaskDescription description_;
};

// Paths are relative to the working folder.
std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  const runs::DataOptions& options = config.data;
  Lessons lessons(config, folder);
  if (!options.corpus.empty())
    return make_corpus_modelling(options, runs::common(config.model).context, folder, std::move(lessons));
  const text::Corpus corpus = options.text.empty()
                                  ? text::load_python_standard_library(options.byte_limit)
                                  : text::load_corpus({options.text.begin(), options.text.end()}, options.byte_limit);
  if (!options.sha256.empty() && corpus.sha256 != options.sha256) {
    const std::string change = folder.empty() ? "" : text::first_change(folder / runs::text_file, corpus.files);
    throw Error(expected_got("data.sha256 of " + corpus.name, options.sha256,
                             corpus.sha256 + (change.empty() ? "" : ": " + change)));
  }
  const bool has_tokenizer = !folder.empty() && path_exists(folder / runs::tokenizer_file);
  const std::filesystem::path tokenizer = has_tokenizer ? folder / runs::tokenizer_file : lessons.tokenizer();
  auto data = std::make_shared<text::Dataset>(
      tokenizer.empty()
          ? text::make_dataset(corpus, std::string_view(options.tokenizer), runs::common(config.model).context,
                               options.vocabulary)
          : text::make_dataset(corpus, text::load_tokenizer(tokenizer), runs::common(config.model).context));
  data->kept_tokenizer = !tokenizer.empty();
  if (data->kept_tokenizer && !has_tokenizer && options.tokenizer != runs::DataOptions{}.tokenizer &&
      options.tokenizer != data->tokenizer->kind())
    throw UsageError(expected_got("data.tokenizer", std::string(data->tokenizer->kind()) + ", that of task.start",
                                  options.tokenizer));
  lessons.expect_tokenizer(data->tokenizer->to_json());
  return make_language_modelling(std::move(data), options.text, options.byte_limit, std::move(lessons));
}

}  // namespace

std::shared_ptr<const runs::Task> make_language_modelling(std::shared_ptr<const text::Dataset> data,
                                                          std::vector<std::string> text, std::int64_t byte_limit,
                                                          Lessons lessons) {
  return std::make_shared<LanguageModelling>(std::move(data), std::move(text), byte_limit, std::move(lessons));
}

runs::TaskEntry language_modelling_task() {
  return {.description = runs::describe_language_modelling(runs::DataOptions{}.tokenizer),
          .make = make,
          .sampler = text_sampler(),
          .random = random_language_modelling,
          .reads_text = true};
}

}  // namespace cogwheel::tasks::language
