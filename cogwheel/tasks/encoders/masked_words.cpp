// Predicting hidden words from those around them: Devlin et al., "BERT" (2019), section 3.1. Of a text, a sentence a
// line, or of made-up reviews.
#include "cogwheel/tasks/encoders/masked_words.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/token.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/encoders/encoder_task.h"
#include "cogwheel/tasks/encoders/word_baseline.h"

namespace cogwheel::tasks::encoders::masked_words {
namespace {

runs::TaskDescription describe() {
  return {.name = "masked_words",
          .summary = "predict hidden words from those around them: of a text, or made-up reviews",
          .item = "sentence",
          .data = "Made-up reviews.",
          .does_better = "predicts hidden words better",
          .do_better = "predict hidden words better",
          .counted = "sentences",
          .measures = {
              {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per hidden piece"},
              {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
}

// The logits of the tokens that are to be told, and what they are.
struct Told {
  at::Tensor logits, targets;  // [n, vocabulary], [n]
};

Told told(Encoder& model, const runs::Batch& batch, nn::ForwardContext context) {
  context.lengths = batch.lengths;
  const at::Tensor states = model->states(batch.inputs, batch.segments, context).flatten(0, 1);
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor places = (targets != ignored_target).nonzero().squeeze(1);
  return {model->word_logits(states.index_select(0, nn::to_device(places, states.device()))),
          targets.index_select(0, places)};
}

class MaskedWords : public EncoderTask {
 public:
  MaskedWords(SentenceData data, const WordMasking& masking, runs::TaskOptions options)
      : EncoderTask(std::move(data), std::move(options)), masking_(masking) {}

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    if (const std::int64_t classes = config.model.as<EncoderOptions>().classes; classes != 0)
      throw UsageError(expected_got("model.classes", "0: words are told, not classes", std::to_string(classes)));
    data_.complete(config, options_);
    return config;
  }
  std::vector<runs::RunFile> assets() const override { return {{runs::tokenizer_file, data_.tokenizer().to_json()}}; }
  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    nn::holder_of<Encoder>(model)->initialize(seed);
  }

  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const MaskedBatch drawn =
        masked_batch(data_.corpus().training, data_.tokenizer(), data_.training_rows(training, place.batches), masking_,
                     training.seed, place.batches);
    return as_batch(drawn.batch, drawn.targets);
  }
  std::int64_t counted(const runs::Batch& batch) const override { return runs::told_targets(batch); }
  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    auto model = nn::holder_of<Encoder>(module);
    const Told words = told(model, batch, {.dropout = model->dropout(dropout_seed)});
    return nn::token_loss(words.logits, nn::to_device(words.targets, words.logits.device()));
  }

  // The same words are hidden for every model.
  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const torch::NoGradGuard no_grad;
    auto model = nn::holder_of<Encoder>(module);
    double loss = 0, right = 0, words = 0;
    for (const std::vector<std::int64_t>& rows : data_.held_out_rows(rows_of(part, training))) {
      const MaskedBatch some = masked_evaluation_batch(data_.corpus().held_out, data_.tokenizer(), rows, masking_);
      nn::Hooks hooks;
      std::optional<nn::HeadObserver> observer;
      if (heads != nullptr && words == 0) observer.emplace(hooks);
      const Told found = told(model, as_batch(some.batch, some.targets), {.hooks = observer ? &hooks : nullptr});
      if (observer) *heads = observer->statistics();
      const at::Tensor logits = found.logits.to(at::kFloat).cpu();
      loss += at::cross_entropy_loss(logits, found.targets, {}, at::Reduction::Sum).item<double>();
      right += (logits.argmax(-1) == found.targets).sum().item<double>();
      words += static_cast<double>(found.targets.numel());
    }
    return {{"held_out_loss", loss / words}, {"accuracy", right / words}};
  }

  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t, const runs::ThoroughInspection*) const override {
    const torch::NoGradGuard no_grad;
    auto model = nn::holder_of<Encoder>(module);
    const Unigrams training(data_.corpus().training, data_.tokenizer()),
        held_out(data_.corpus().held_out, data_.tokenizer());
    runs::Inspection inspection;
    inspection.tables = {
        {"What a guess without the words around reaches",
         {"", "nats per piece"},
         {{"frequencies of the held-out pieces: their entropy", fmt::format("{:.4f}", held_out.entropy())},
          {"frequencies of the training pieces", fmt::format("{:.4f}", training.cross_entropy(held_out))}}},
        examples(model)};
    for (const std::vector<std::int64_t>& rows : data_.held_out_rows(data_.evaluated())) {
      const std::vector<std::int64_t> row{rows.back()};
      if (data_.corpus().held_out.length(row[0]) > readable) break;
      show_maps(inspection, model,
                masked_evaluation_batch(data_.corpus().held_out, data_.tokenizer(), row, masking_).batch);
    }
    return inspection;
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    return std::make_shared<MaskedWords>(data_.limited(std::min(evaluated, data_.evaluated())), masking_, options_);
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<MaskedWords>(data_.for_tuning(), masking_, options_);
  }

 private:
  // Hidden words of some held-out sentences, and what the model says.
  pages::TextTable examples(Encoder& model) const {
    pages::TextTable table{
        "Hidden words, and what the model takes them for", {"sentence", "hidden", "most probable"}, {}};
    const auto batches = data_.held_out_rows(std::min<std::int64_t>(8, data_.evaluated()));
    for (const std::vector<std::int64_t>& rows : batches)
      for (const std::int64_t row : rows) {
        const std::vector<std::int64_t> one{row};
        const MaskedBatch some = masked_evaluation_batch(data_.corpus().held_out, data_.tokenizer(), one, masking_);
        const Told found = told(model, as_batch(some.batch, some.targets), {});
        std::string sentence, hidden, taken;
        for (std::int64_t place = 1; place + 1 < some.batch.tokens.size(1); ++place)
          sentence += (place == 1 ? "" : " ") + piece(some.batch.tokens[0][place].item<std::int64_t>());
        const at::Tensor best = found.logits.argmax(-1).cpu();
        for (std::int64_t i = 0; i < best.size(0); ++i) {
          hidden += (i == 0 ? "" : ", ") + piece(found.targets[i].item<std::int64_t>());
          taken += (i == 0 ? "" : ", ") + piece(best[i].item<std::int64_t>());
        }
        table.rows.push_back({sentence, hidden, taken});
      }
    return table;
  }

  WordMasking masking_;
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  runs::TaskOptionReader reader(config.task);
  WordMasking masking;
  masking.probability = reader.number("masked", masking.probability, WordMasking::probabilities);
  masking.whole_words = reader.yes("whole_words", masking.whole_words);
  auto corpus = sentence_corpus(reader, config, false, folder);
  return make_masked_words(std::move(corpus), masking, reader.finish());
}

// The prompt with each [MASK] told: the most probable pieces with their probabilities.
void tell(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  const torch::NoGradGuard no_grad;
  TrainedEncoder trained = load_encoder(folder);
  const SentenceRow given = sentences_in(request.prompt, trained.in_row);
  const EncodedRow row = encode_row(*trained.tokenizer, given.first, given.second, trained.model->options().context);
  if (row.cut) request.warn("the text is too long and was cut");
  SentenceRows rows;
  rows.tokens.add(row.first, row.second, 0);
  const std::vector<std::int64_t> first{0};
  const EncoderBatch batch = encoder_batch(rows, *trained.tokenizer, first);
  const at::Tensor places = (batch.tokens[0] == trained.tokenizer->specials().mask).nonzero().squeeze(1);
  if (places.numel() == 0) throw UsageError(expected_got("sample: --prompt", "a text with [MASK]", request.prompt));
  const at::Tensor states = trained.model->states(batch.tokens, batch.segments)[0].index_select(0, places);
  const at::Tensor shares = trained.model->word_logits(states).to(at::kFloat).softmax(-1).cpu();
  for (std::int64_t word = 0; word < shares.size(0); ++word) {
    const auto [values, tokens] = shares[word].topk(std::min<std::int64_t>(5, shares.size(1)));
    std::string text = word == 0 ? "" : "\n";
    for (std::int64_t place = 0; place < values.size(0); ++place)
      text += fmt::format("{}{} {:.3f}", place == 0 ? "" : "  ",
                          trained.tokenizer->piece(static_cast<Token>(tokens[place].item<std::int64_t>())),
                          values[place].item<double>());
    if (!write(text)) return;
  }
}

}  // namespace
}  // namespace cogwheel::tasks::encoders::masked_words

namespace cogwheel::tasks::encoders {

std::shared_ptr<const runs::Task> make_masked_words(std::shared_ptr<const SentenceCorpus> corpus,
                                                    const WordMasking& masking, runs::TaskOptions options) {
  return std::make_shared<masked_words::MaskedWords>(SentenceData(std::move(corpus)), masking, std::move(options));
}

runs::TaskEntry masked_words_task() {
  return {.description = masked_words::describe(),
          .make = masked_words::make,
          .sampler = {{"--prompt"}, masked_words::tell},
          .random = random_masked_words,
          .preset = [] { return encoder_preset("masked_words", "the same, whose hidden words are told"); },
          .data_keys = "task.sentences"};
}
}  // namespace cogwheel::tasks::encoders
