#include "cogwheel/tasks/language/corpus_modelling.h"

#include <torch/types.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/default_task.h"
#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/language/corpus_windows.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/language/narrowing_cost.h"
#include "cogwheel/tasks/language/packed_loss.h"
#include "cogwheel/tasks/language/passage.h"
#include "cogwheel/text/made_ahead.h"

namespace cogwheel::tasks::language {
namespace {

// What one token is called in units: of those that are no characters, a token.
std::string item_of(const text::Tokenizer& tokenizer) {
  const std::string kind(tokenizer.kind());
  return kind == "byte" || kind == "character" ? kind : "token";
}

// Of one index its hash, of several that of all.
std::string sha256_of_corpora(const CorpusData& data) {
  if (data.corpora.size() == 1) return data.corpora.front()->sha256();
  Sha256 hash;
  for (const auto& corpus : data.corpora) hash.add(corpus->sha256() + "\n");
  return hash.digits();
}

class CorpusModelling : public LanguageModelTask {
 public:
  CorpusModelling(CorpusData data, std::vector<std::string> paths, Lessons lessons)
      : LanguageModelTask(std::move(lessons)),
        data_(std::move(data)),
        paths_(std::move(paths)),
        description_(runs::describe_language_modelling(item_of(tokenizer()))) {}

  const runs::TaskDescription& description() const override { return description_; }

  runs::DataFacts data(const runs::ModelOptions& model, const runs::TrainingOptions& training) const override {
    const std::int64_t context = runs::common(model).context;
    const CorpusWindows windows(data_, context, training.seed);
    runs::DataFacts facts{.name = {},
                          .tokenizer = description_.item,
                          .sha256 = sha256_of_corpora(data_),
                          .corpus = paths_,
                          .vocabulary = std::max(tokenizer().vocabulary(), lessons().vocabulary()),
                          .evaluated_tokens = windows.evaluated_windows() * context,
                          .curve_tokens = windows.evaluated_windows(training.curve_tokens) * context,
                          .window = context};
    for (std::size_t corpus = 0; corpus < data_.corpora.size(); ++corpus) {
      const text::CorpusIndex& index = data_.corpora[corpus]->index();
      facts.name += (facts.name.empty() ? "" : ", ") + index.name;
      facts.bytes += index.counts.text_bytes;
      const std::int64_t all = data_.corpora[corpus]->part(text::CorpusSide::training).tokens(),
                         kept = windows.training_windows(static_cast<std::int64_t>(corpus)) * context;
      facts.train_tokens += data_.for_tuning ? kept : all;
      facts.held_out_tokens +=
          data_.for_tuning ? all - kept : data_.corpora[corpus]->part(text::CorpusSide::held_out).tokens();
    }
    return facts;
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    config.task = completed_options(config.task);
    complete_taught_model(config, tokenizer().vocabulary(), "the tokenizer of the corpus");
    for (auto& path : config.data.corpus) path = runs::recorded_path(path, "data.corpus");
    config.data.tokenizer = tokenizer().kind();
    config.data.sha256 = sha256_of_corpora(data_);
    return config;
  }

  std::vector<runs::RunFile> assets() const override {
    return {{runs::tokenizer_file, read_file(first().folder() / text::corpus_tokenizer_file)}};
  }

  runs::Batch batch(const torch::nn::Module& model, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    return rows(context_of(model), training.seed, place.rows, training.batch);
  }

  void expect_shared(const runs::ModelOptions& given, std::int64_t ranks, std::int64_t tensor) const override {
    LanguageModelTask::expect_shared(given, ranks, tensor);
    const LanguageModelOptions& model = given.as<LanguageModelOptions>();
    for (std::int64_t layer = 0; data_.documents && layer < model.layers; ++layer)
      if (const std::string name = layer_mechanism(model, layer);
          find_recurrent_law(name) != nullptr && model.heads % ranks != 0)
        throw UsageError(expected_got(
            "model.heads", "a multiple of parallel.context, " + std::to_string(ranks) + ", for documents in " + name,
            std::to_string(model.heads)));
  }

  void expect_continuable(const std::string& prompt) const override { tokens_of_prompt(tokenizer(), prompt); }

  std::string continued(torch::nn::Module& model, const std::string& prompt, std::uint64_t seed) const override {
    return continued_text(model, tokenizer(), prompt, seed);
  }

  std::string held_out_text(std::int64_t bytes) const override {
    const text::CorpusPart& part = first().part(text::CorpusSide::held_out);
    std::vector<std::int64_t> read(static_cast<std::size_t>(std::min(part.tokens(), bytes)));
    part.read(0, read);
    return text_of(tokenizer(), std::vector<Token>(read.begin(), read.end()), bytes);
  }

  runs::MeasuredValues evaluate(torch::nn::Module& model, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const CorpusWindows windows(data_, context_of(model), training.seed);
    const runs::Batch all = windows.evaluated_rows(part == runs::EvaluationPart::curve ? training.curve_tokens : 0);
    const std::vector<double> means = runs::mean_in_parts(
        all, heads, [&](const runs::Batch& some, const nn::ForwardContext& context) -> runs::PartialMeans {
          const std::int64_t told = counted(some);
          if (told == 0) return {{0.0}, 0.0};
          return {{packed_loss(model_of(model), some, context).item<double>()}, static_cast<double>(told)};
        });
    return {{description_.decisive().name, means.front()}};
  }

  runs::Batch held_out_windows_of(std::int64_t context, std::int64_t tokens, std::uint64_t seed) const override {
    return CorpusWindows(data_, context, seed).evaluated_rows(tokens);
  }

  runs::NarrowingCost narrowing_cost(torch::nn::Module& module, const runs::TrainingOptions& training,
                                     const runs::KeptNumbers& kept) const override {
    if (kept.sink >= 0)
      throw UsageError(expected_got("evaluate: --sink", "a run on a text, whose windows follow each other", "corpora"));
    LanguageModel model = nn::holder_of<LanguageModel>(module);
    return language::narrowing_cost(
        model, held_out_windows_of(context_of(module), narrowing_cost_tokens, training.seed), kept);
  }

  // As of a text: a passage that is held out, and what the model generates after it.
  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t seed,
                           const runs::ThoroughInspection*) const override {
    LanguageModel model = nn::holder_of<LanguageModel>(module);
    text::Dataset held_out;
    held_out.tokenizer = first().tokenizer();
    for (const text::CorpusSide side : {text::CorpusSide::held_out, text::CorpusSide::training}) {
      constexpr std::int64_t most = 1 << 16;
      const text::CorpusPart& part = first().part(side);
      if (!held_out.held_out.empty() || part.tokens() == 0) continue;
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(std::min(part.tokens(), most)));
      part.read(0, tokens);
      held_out.held_out.assign(tokens.begin(), tokens.end());
    }
    const std::vector<Token> passage = choose_passage(held_out, model->options().context);
    return passage_and_sample(model, tokenizer(), passage, seed);
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated_tokens) const override {
    CorpusData part = data_;
    part.evaluated_tokens =
        part.evaluated_tokens == 0 ? evaluated_tokens : std::min(part.evaluated_tokens, evaluated_tokens);
    return std::make_shared<CorpusModelling>(std::move(part), paths_, lessons());
  }

  std::shared_ptr<const runs::Task> for_tuning() const override {
    CorpusData split = data_;
    split.for_tuning = true;
    return std::make_shared<CorpusModelling>(std::move(split), paths_, lessons());
  }

 private:
  const text::PreparedCorpus& first() const { return *data_.corpora.front(); }
  const text::Tokenizer& tokenizer() const { return *first().tokenizer(); }

  // Batches of one run are asked for one after the other, and made ahead of it.
  struct Ahead {
    CorpusWindows windows;
    std::int64_t offset, batch;
    text::MadeAhead<runs::Batch> batches;

    static constexpr std::int64_t made_ahead = 4;
    Ahead(CorpusData data, std::int64_t context, std::uint64_t seed, std::int64_t rows, std::int64_t first)
        : windows(std::move(data), context, seed),
          offset(first),
          batch(rows),
          batches([this](std::int64_t number) { return windows.rows(offset + number * batch, batch); }, made_ahead) {}
    bool gives(std::int64_t context, std::uint64_t seed, std::int64_t rows, std::int64_t first) const {
      return windows.context() == context && windows.seed() == seed && batch == rows && first % rows == offset;
    }
  };

  // The windows that are seen as numbers `first` and on.
  runs::Batch rows(std::int64_t context, std::uint64_t seed, std::int64_t first, std::int64_t count) const {
    const std::lock_guard lock(mutex_);
    if (!ahead_ || !ahead_->gives(context, seed, count, first))
      ahead_ = std::make_unique<Ahead>(data_, context, seed, count, first % count);
    return ahead_->batches.at(first / count);
  }

  CorpusData data_;
  std::vector<std::string> paths_;
  runs::TaskDescription description_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Ahead> ahead_;
};

}  // namespace

std::shared_ptr<const runs::Task> make_corpus_modelling(const runs::DataOptions& options, std::int64_t context,
                                                        const std::filesystem::path& folder, Lessons lessons) {
  if (!options.text.empty())
    throw UsageError(expected_got("data.corpus", "none beside data.text", options.corpus.front()));
  if (!options.weights.empty() && options.weights.size() != options.corpus.size())
    throw UsageError(expected_got("data.weights",
                                  std::to_string(options.corpus.size()) + ", one for each of data.corpus",
                                  std::to_string(options.weights.size())));
  if (std::ssize(options.corpus) > CorpusMixture::most_corpora)
    throw UsageError(expected_got("data.corpus", "at most " + std::to_string(CorpusMixture::most_corpora) + " folders",
                                  std::to_string(options.corpus.size())));
  CorpusData data{.corpora = {},
                  .weights = options.weights,
                  .documents = options.packing == "documents",
                  .evaluated_tokens = options.held_out_tokens};
  for (const std::string& path : options.corpus) {
    data.corpora.push_back(std::make_shared<text::PreparedCorpus>(path));
    const std::string &expected = data.corpora.front()->index().tokenizer.sha256,
                      &got = data.corpora.back()->index().tokenizer.sha256;
    if (got != expected)
      throw Error(expected_got(path, "the tokenizer of " + options.corpus.front() + ", SHA-256 " + expected, got));
  }
  if (const std::string got = sha256_of_corpora(data); !options.sha256.empty() && got != options.sha256)
    throw Error(expected_got("data.sha256 of " + options.corpus.front(), options.sha256, got + ": another corpus"));
  const std::filesystem::path kept = folder / runs::tokenizer_file;
  if (std::error_code problem; !folder.empty() && std::filesystem::exists(kept, problem))
    if (const std::string got = sha256_of_file(kept), expected = data.corpora.front()->index().tokenizer.sha256;
        got != expected)
      throw Error(
          expected_got(kept.string(), "the tokenizer of " + options.corpus.front() + ", SHA-256 " + expected, got));
  const CorpusWindows check(data, context, 0);  // that there are some
  lessons.expect_tokenizer(read_file(data.corpora.front()->folder() / text::corpus_tokenizer_file));
  return std::make_shared<CorpusModelling>(std::move(data), options.corpus, std::move(lessons));
}

}  // namespace cogwheel::tasks::language
