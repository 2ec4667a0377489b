// How the quality of a translation depends on the length of its source, without attention, where one state must
// hold all of the sentence, and with it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/nn/model_holder.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lecture/word_errors.h"
#include "cogwheel/research/labs/trained_models.h"
#include "cogwheel/tasks/translation/translation_scores.h"
#include "cogwheel/tasks/translation/translations.h"

namespace cogwheel::labs::length {
namespace {

LabParameters parameters() {
  std::vector<LabParameter> all{
      {"distance",
       {4},
       {0, 64},
       "words that stand first in the translation and last in the source, which make it longer"},
      {"widths",
       {64, 128},
       {16, 1024},
       "of embeddings and states, even numbers, rising",
       LabParameter::Kind::whole,
       true},
      {"sentences", {200}, {20, 200}, "unseen ones that are translated"}};
  for (LabParameter& each : training_parameters(2000, 64, 0.003)) all.push_back(std::move(each));
  return all;
}

tasks::translation::SequenceToSequenceOptions model_of(std::int64_t width, const std::string& mechanism) {
  tasks::translation::SequenceToSequenceOptions options;
  options.width = width;
  options.mechanism = mechanism;
  return options;
}

void check(const LabParameters& given) {
  given.expect_rising("widths");
  for (const std::int64_t width : given.wholes("widths")) {
    tasks::translation::SequenceToSequenceOptions options = model_of(width, "none");
    options.vocabulary = 16;
    tasks::translation::check(options);
  }
}

std::vector<LabModel> models(const LabParameters& given) {
  std::vector<LabModel> all;
  for (const char* mechanism : {"none", "bahdanau"})
    for (const std::int64_t width : given.wholes("widths")) {
      const bool none = std::string_view(mechanism) == "none";
      all.push_back(toy_translation(fmt::format("{}, {} units", none ? "no attention" : "Bahdanau", width),
                                    model_of(width, mechanism), given.whole("distance"), given));
    }
  return all;
}

ErrorsByLength measure(TrainedModel& model, const tasks::translation::TranslationData& data, std::size_t count) {
  auto module = nn::holder_of<tasks::translation::SequenceToSequence>(*model.run.model());
  const std::vector<std::string> sources(data.test().source.begin(),
                                         data.test().source.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<std::string> translations =
      tasks::translation::translate(module, data.tokenizer(), sources, {.beam = 1});
  ErrorsByLength errors;
  for (std::size_t line = 0; line < count; ++line) {
    const std::vector<Token> truth = data.tokenizer().encode(data.test().target[line]);
    errors[tasks::translation::word_count(sources[line])].add(data.tokenizer().encode(translations[line]), truth);
  }
  return errors;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  std::vector<TrainedModel> trained = train_models(models(given), host);
  const auto data = tasks::translation::toy_data({.distance = given.whole("distance")});
  const std::size_t count = std::min(data->test().source.size(), static_cast<std::size_t>(given.whole("sentences")));
  std::vector<ErrorsByLength> errors(trained.size());
  side_by_side(std::ssize(trained), host, [&](std::int64_t index) {
    const auto place = static_cast<std::size_t>(index);
    errors[place] = measure(trained[place], *data, count);
  });

  const auto enough = static_cast<std::int64_t>(std::max<std::size_t>(1, count / 20));
  LabResult result;
  pages::LineChart by_length{
      .title = "Errors by the length of the source",
      .x = {.title = "words of the source"},
      .y = {.title = "word error rate", .min = 0},
      .series = {},
      .caption = fmt::format("Lengths of at least {} sentences. Changes that make a translation the true "
                             "one, over the words of that.",
                             enough)};
  pages::LineChart curves{.title = "Learning to translate",
                          .x = {.title = "training steps"},
                          .y = {.title = "held-out loss, nats per word", .logarithmic = true},
                          .series = {}};
  pages::TextTable table{"Translations",
                         {"model", "word error rate", "of the shortest quarter", "of the longest quarter",
                          "sentences without an error", "held-out loss, nats per word"},
                         {}};
  for (std::size_t i = 0; i < trained.size(); ++i) {
    pages::ChartSeries series{.name = trained[i].name, .x = {}, .y = {}};
    WordErrors all;
    for (const auto& [words, each] : errors[i]) {
      all.add(each);
      if (each.sentences < enough) continue;
      series.x.push_back(static_cast<double>(words)), series.y.push_back(each.rate());
    }
    by_length.series.push_back(std::move(series));
    curves.series.push_back(trained[i].curve);
    const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
    table.rows.push_back({trained[i].name, percent(all.rate()), percent(quarter_of(errors[i], false).rate()),
                          percent(quarter_of(errors[i], true).rate()), percent(all.right_sentences()),
                          fmt::format("{:.4f}", trained[i].loss)});
  }
  // Models without attention come first, in the order of their widths.
  const std::size_t widths = trained.size() / 2;
  const auto& names = given.wholes("widths");
  for (std::size_t i = 0; i < widths; ++i) {
    const double shortest = quarter_of(errors[i], false).rate(), longest = quarter_of(errors[i], true).rate();
    const double looking_longest = quarter_of(errors[widths + i], true).rate();
    result.findings.push_back({fmt::format("No attention, {} units: word error rate of the longest quarter (that of "
                                           "the shortest)",
                                           names[i]),
                               direction, above, shortest, 0, longest});
    result.findings.push_back({fmt::format("The same less that of Bahdanau's, {} units", names[i]), direction, above, 0,
                               0, longest - looking_longest});
  }
  const std::size_t last = widths - 1;
  result.answer = fmt::format(
      "Without attention the word error rate is {:.1f} % of the shortest quarter of the sentences and {:.1f} % of the "
      "longest, with {} units; with Bahdanau's alignment {:.1f} and {:.1f} %.",
      100 * quarter_of(errors[last], false).rate(), 100 * quarter_of(errors[last], true).rate(), names[last],
      100 * quarter_of(errors[widths + last], false).rate(), 100 * quarter_of(errors[widths + last], true).rate());
  result.charts = {std::move(by_length), std::move(curves)};
  result.tables = {std::move(table)};
  result.assumptions = {{"The language is made up.",
                         "Its sentences are about as hard word by word, whatever their length: what grows "
                         "with it is what the state must hold. docs/results/translation.md has BLEU by "
                         "length on Multi30k."},
                        {"The same training for all.",
                         "Steps, batches and the learning rate are those of every model. More of them make "
                         "the errors without attention fewer, a larger state too; both cost more for "
                         "longer sentences."},
                        {"The most probable word at each step.", "No beam search."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::length

namespace cogwheel::labs {
LabEntry length_lab() {
  return {"length",
          "Long sentences, with and without attention",
          "Do translations of long sentences become worse where one state must hold the whole sentence?",
          length::parameters(),
          length::run,
          length::check};
}
}  // namespace cogwheel::labs
