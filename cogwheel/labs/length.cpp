// How the quality of a translation depends on the length of its source (S2-2), without attention, where one state must
// hold all of the sentence, and with it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cogwheel/labs/lab.h"
#include "cogwheel/labs/trained_models.h"
#include "cogwheel/tasks/translation_scores.h"
#include "cogwheel/tasks/translations.h"

namespace cogwheel::length {
namespace {

LabParameters parameters() {
  std::vector<LabParameter> all{
      {"distance",
       {4},
       {0, 64},
       "words that stand first in the translation and last in the source, which make it longer"},
      {"widths", {64, 128}, {16, 1024}, "of embeddings and states, even numbers", LabParameter::Kind::whole, true},
      {"sentences", {1000}, {10, 1000}, "unseen ones that are translated"}};
  for (LabParameter& each : training_parameters(2000, 64, 0.003)) all.push_back(std::move(each));
  return all;
}

SequenceToSequenceOptions model_of(std::int64_t width, const std::string& mechanism) {
  SequenceToSequenceOptions options;
  options.width = width;
  options.mechanism = mechanism;
  return options;
}

void check(const LabParameters& given) {
  for (const std::int64_t width : given.wholes("widths")) {
    SequenceToSequenceOptions options = model_of(width, "none");
    options.vocabulary = 16;
    check(options);
  }
}

std::vector<LabModel> models(const LabParameters& given) {
  std::vector<LabModel> all;
  for (const char* mechanism : {"none", "bahdanau"})
    for (const std::int64_t width : given.wholes("widths")) {
      const bool none = std::string_view(mechanism) == "none";
      LabModel model{.name = fmt::format("{}, {} units", none ? "no attention" : "Bahdanau", width), .config = {}};
      model.config.task = {"translation", {{"distance", given.whole("distance")}, {"label_smoothing", 0.1}}};
      model.config.model = model_of(width, mechanism);
      model.config.training = training_options(given);
      all.push_back(std::move(model));
    }
  return all;
}

// Insertions, deletions and replacements that make one sentence of the other.
std::int64_t edits(const std::vector<Token>& from, const std::vector<Token>& to) {
  std::vector<std::int64_t> row(to.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::int64_t kept = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({kept, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

struct Errors {
  std::int64_t sentences = 0, wrong_sentences = 0, words = 0, edits = 0;

  void add(std::int64_t found, std::size_t length) {
    ++sentences, wrong_sentences += found > 0 ? 1 : 0;
    words += static_cast<std::int64_t>(length), edits += found;
  }
  void add(const Errors& more) {
    sentences += more.sentences, wrong_sentences += more.wrong_sentences;
    words += more.words, edits += more.edits;
  }
  double rate() const { return static_cast<double>(edits) / static_cast<double>(std::max<std::int64_t>(1, words)); }
  double wrong() const {
    return static_cast<double>(wrong_sentences) / static_cast<double>(std::max<std::int64_t>(1, sentences));
  }
};
using ErrorsByLength = std::map<std::int64_t, Errors>;  // by words of the source

ErrorsByLength measure(TrainedModel& model, const TranslationData& data, std::size_t count) {
  SequenceToSequence module(std::dynamic_pointer_cast<SequenceToSequenceImpl>(model.run.model()));
  const std::vector<std::string> sources(data.test().source.begin(),
                                         data.test().source.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<std::string> translations = translate(module, data.tokenizer(), sources, {.beam = 1});
  ErrorsByLength errors;
  for (std::size_t line = 0; line < count; ++line) {
    const std::vector<Token> truth = data.tokenizer().encode(data.test().target[line]);
    errors[word_count(sources[line])].add(edits(data.tokenizer().encode(translations[line]), truth), truth.size());
  }
  return errors;
}

// Of the shortest or the longest sources, so many that they are a quarter of all sentences or a few more.
Errors quarter(const ErrorsByLength& errors, bool longest) {
  std::int64_t all = 0;
  for (const auto& [length, each] : errors) all += each.sentences;
  Errors sum;
  const auto add = [&](const auto& entry) {
    if (4 * sum.sentences < all) sum.add(entry.second);
  };
  if (longest)
    std::for_each(errors.rbegin(), errors.rend(), add);
  else
    std::for_each(errors.begin(), errors.end(), add);
  return sum;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  std::vector<TrainedModel> trained = train_models(models(given), host);
  const auto data = toy_data({.distance = given.whole("distance")});
  const std::size_t count = std::min(data->test().source.size(), static_cast<std::size_t>(given.whole("sentences")));
  std::vector<ErrorsByLength> errors(trained.size());
  side_by_side(std::ssize(trained), host, [&](std::int64_t index) {
    const auto place = static_cast<std::size_t>(index);
    errors[place] = measure(trained[place], *data, count);
  });

  LabResult result;
  LineChart by_length{.title = "Errors by the length of the source",
                      .x = {.title = "words of the source"},
                      .y = {.title = "word error rate", .min = 0},
                      .series = {},
                      .caption =
                          "Lengths of at least 10 sentences. Changes that make a translation the true one, "
                          "over the words of that."};
  LineChart curves{.title = "Learning to translate",
                   .x = {.title = "training steps"},
                   .y = {.title = "held-out loss, nats per word", .logarithmic = true},
                   .series = {}};
  TextTable table{"Translations",
                  {"model", "word error rate", "of the shortest quarter", "of the longest quarter",
                   "sentences without an error", "held-out loss, nats per word"},
                  {}};
  for (std::size_t i = 0; i < trained.size(); ++i) {
    ChartSeries series{.name = trained[i].name, .x = {}, .y = {}};
    Errors all;
    for (const auto& [words, each] : errors[i]) {
      all.add(each);
      if (each.sentences < 10) continue;
      series.x.push_back(static_cast<double>(words)), series.y.push_back(each.rate());
    }
    by_length.series.push_back(std::move(series));
    curves.series.push_back(trained[i].curve);
    const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
    table.rows.push_back({trained[i].name, percent(all.rate()), percent(quarter(errors[i], false).rate()),
                          percent(quarter(errors[i], true).rate()), percent(1 - all.wrong()),
                          fmt::format("{:.4f}", trained[i].loss)});
  }
  // Models without attention come first, in the order of their widths.
  const std::size_t widths = trained.size() / 2;
  const auto& names = given.wholes("widths");
  for (std::size_t i = 0; i < widths; ++i) {
    const double shortest = quarter(errors[i], false).rate(), longest = quarter(errors[i], true).rate();
    const double looking_longest = quarter(errors[widths + i], true).rate();
    result.findings.push_back({fmt::format("No attention, {} units: word error rate of the longest quarter (that of "
                                           "the shortest)",
                                           names[i]),
                               "S2-2", above, shortest, 0, longest});
    result.findings.push_back({fmt::format("The same less that of Bahdanau's, {} units", names[i]), "S2-2", above, 0, 0,
                               longest - looking_longest});
  }
  const std::size_t last = widths - 1;
  result.answer = fmt::format(
      "Without attention {:.1f} % of the words of the shortest quarter are wrong and {:.1f} % of the longest, at {} "
      "units; with Bahdanau's alignment {:.1f} and {:.1f} %.",
      100 * quarter(errors[last], false).rate(), 100 * quarter(errors[last], true).rate(), names[last],
      100 * quarter(errors[widths + last], false).rate(), 100 * quarter(errors[widths + last], true).rate());
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
}  // namespace cogwheel::length

namespace cogwheel {
LabEntry length_lab() {
  return {"length",
          "Long sentences, with and without attention",
          "Do translations of long sentences become worse where one state must hold the whole sentence?",
          length::parameters(),
          length::run,
          length::check};
}
}  // namespace cogwheel
