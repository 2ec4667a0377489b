// How the quality of a translation depends on the length of its source, without attention, where one state must
// hold all of the sentence, and with it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lecture/word_errors.h"
#include "cogwheel/research/labs/sums.h"
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
  all.push_back(seeds_parameter());
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

// Run by run, and within one those without attention first, in the order of their widths.
std::vector<LabModel> models(const LabParameters& given) {
  std::vector<LabModel> all;
  for (std::int64_t run = 0; run < given.whole("seeds"); ++run)
    for (const char* mechanism : {"none", "bahdanau"})
      for (const std::int64_t width : given.wholes("widths")) {
        const bool none = std::string_view(mechanism) == "none";
        all.push_back(toy_translation(fmt::format("{}, {} units", none ? "no attention" : "Bahdanau", width),
                                      model_of(width, mechanism), given.whole("distance"), given, run));
      }
  return all;
}

ErrorsByLength measure(TrainedModel& model, const tasks::translation::TranslationData& data, std::size_t count) {
  tasks::translation::Translator& module = tasks::translation::translator_of(*model.run.model());
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
  const auto seeds = static_cast<std::size_t>(given.whole("seeds"));
  const std::size_t kinds = trained.size() / seeds;
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
  // Of the sentences of all runs.
  std::vector<ErrorsByLength> together(kinds);
  for (std::size_t i = 0; i < trained.size(); ++i)
    for (const auto& [words, each] : errors[i]) together[i % kinds][words].add(each);
  // A number of each run.
  const auto of_runs = [&](const auto& number) { return labs::of_runs(trained.size(), kinds, number); };
  for (std::size_t i = 0; i < kinds; ++i) {
    pages::ChartSeries series{.name = trained[i].name, .x = {}, .y = {}};
    WordErrors all;
    for (const auto& [words, each] : together[i]) {
      all.add(each);
      if (each.sentences < enough * static_cast<std::int64_t>(seeds)) continue;
      series.x.push_back(static_cast<double>(words)), series.y.push_back(each.rate());
    }
    by_length.series.push_back(std::move(series));
    curves.series.push_back(trained[i].curve);
    const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
    table.rows.push_back(
        {trained[i].name, percent(all.rate()), percent(quarter_of(together[i], false).rate()),
         percent(quarter_of(together[i], true).rate()), percent(all.right_sentences()),
         fmt::format("{:.4f}", mean_of(of_runs([&](std::size_t first) { return trained[first + i].loss; })).value)});
  }
  const std::size_t widths = kinds / 2;
  const auto& names = given.wholes("widths");
  const auto rate = [&](std::size_t model, bool longest) { return quarter_of(errors[model], longest).rate(); };
  for (std::size_t i = 0; i < widths; ++i) {
    result.findings.push_back(of_draws(
        {fmt::format("No attention, {} units: word error rate of the longest quarter less that of the shortest",
                     names[i]),
         direction, above, 0},
        of_runs([&](std::size_t first) { return rate(first + i, true) - rate(first + i, false); })));
    result.findings.push_back(of_draws(
        {fmt::format("No attention less Bahdanau's, {} units: word error rate of the longest quarter", names[i]),
         direction, above, 0},
        of_runs([&](std::size_t first) { return rate(first + i, true) - rate(first + widths + i, true); })));
  }
  const std::size_t last = widths - 1;
  const auto all_runs = [&](std::size_t model, bool longest) {
    return 100 * quarter_of(together[model], longest).rate();
  };
  result.answer = fmt::format(
      "Without attention the word error rate is {:.1f} % of the shortest quarter of the sentences and {:.1f} % of the "
      "longest, with {} units; with Bahdanau's alignment {:.1f} and {:.1f} %.",
      all_runs(last, false), all_runs(last, true), names[last], all_runs(widths + last, false),
      all_runs(widths + last, true));
  result.charts = {std::move(by_length), std::move(curves)};
  result.tables = {std::move(table)};
  result.assumptions = {{"Numbers are those of all runs.", "Curves of learning are those of the first."},
                        {"The language is made up.",
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
          length::check,
          steps_size()};
}
}  // namespace cogwheel::labs
