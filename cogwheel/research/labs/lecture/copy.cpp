// A string is read into a state and written again: how many of its symbols are right by its length,
// the width of the state and the number of symbols, without attention and with it.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "cogwheel/research/labs/draws.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lab_training.h"
#include "cogwheel/research/labs/trained_models.h"
#include "cogwheel/tasks/translation/sequence_to_sequence.h"

namespace cogwheel::labs::copy {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"widths", {16, 32, 64}, {8, 1024}, "of embeddings and states, even numbers, rising", whole, true},
           {"symbols", {8, 64}, {2, 4096}, "different symbols, each as probable; rising numbers", whole, true},
           {"longest", {20}, {2, 200}, "symbols of a string in training; lengths are drawn from 1 on"},
           {"strings", {200}, {1, 10000}, "fresh ones of each length that are copied"},
           {"batch", {64}, {1, 4096}, "strings of a training step, all of one length"},
           {"steps", {1500}, {1, 1000000}, "of training"},
           {"learning_rate", {0.005}, {0, 1, true}, "of the first step; it falls to 0 as a cosine", real},
           {"right", {0.9}, {0, 1}, "share of right symbols up to which a length counts as copied", real},
           seeds_parameter(),
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

tasks::translation::SequenceToSequenceOptions model_of(std::int64_t width, std::int64_t symbols,
                                                       const std::string& mechanism) {
  tasks::translation::SequenceToSequenceOptions options;
  options.vocabulary = symbols + 1;  // one more begins a copy
  options.width = width;
  options.mechanism = mechanism;
  return options;
}

void check(const LabParameters& given) {
  given.expect_rising("widths");
  given.expect_rising("symbols");
  for (const std::int64_t width : given.wholes("widths")) tasks::translation::check(model_of(width, 2, "bahdanau"));
}

// Strings [count, length], each symbol as probable as any other.
at::Tensor draw_strings(std::int64_t count, std::int64_t length, std::int64_t symbols, Draws& draws) {
  const at::Tensor strings = at::empty({count, length}, at::kLong);
  auto* const at = strings.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < strings.numel(); ++i) at[i] = draws.below(symbols);
  return strings;
}

struct Copier {
  std::int64_t width = 0, symbols = 0;
  bool attends = false;
  std::vector<std::vector<double>> of_seeds = {};  // accuracy of symbols, by length from 1 on
  std::vector<double> accuracy = {};               // its mean over seeds

  std::string name() const { return fmt::format("{} units, {}", width, attends ? "Bahdanau" : "no attention"); }
  // The longest string of which, as of all shorter ones, the share `right` is right.
  std::int64_t copied(double right) const {
    std::int64_t length = 0;
    while (length < std::ssize(accuracy) && accuracy[static_cast<std::size_t>(length)] >= right) ++length;
    return length;
  }
};

// The accuracy of one seed by length. `index` tells the random numbers of one copier from those of others.
std::vector<double> train_and_measure(const Copier& copier, const LabParameters& given, std::uint64_t index,
                                      std::uint64_t seed) {
  const std::int64_t longest = given.whole("longest"), begin = copier.symbols;
  tasks::translation::SequenceToSequence model(
      model_of(copier.width, copier.symbols, copier.attends ? "bahdanau" : "none"));
  model->initialize(seed);
  Draws draws(seed, 2 * index);
  const auto lengths_of = [](const at::Tensor& strings) {
    return at::full({strings.size(0)}, strings.size(1), at::kLong);
  };
  std::vector<std::pair<std::string, at::Tensor>> learned;
  for (const auto& each : model->named_parameters()) learned.emplace_back(each.key(), each.value());
  train_lab(learned, given.whole("steps"), given.number("learning_rate"), [&](std::int64_t) {
    const at::Tensor strings = draw_strings(given.whole("batch"), 1 + draws.below(longest), copier.symbols, draws);
    const at::Tensor inputs =
        at::cat({at::full({strings.size(0), 1}, begin, at::kLong), strings.narrow(1, 0, strings.size(1) - 1)}, 1);
    return model->loss(strings, lengths_of(strings), inputs, strings);
  });
  const torch::NoGradGuard no_grad;
  Draws fresh(seed, 2 * index + 1);
  std::vector<double> accuracy;
  for (std::int64_t length = 1; length <= longest; ++length) {
    const at::Tensor strings = draw_strings(given.whole("strings"), length, copier.symbols, fresh);
    tasks::translation::DecoderState state = model->read(strings, lengths_of(strings));
    at::Tensor symbol = at::full({strings.size(0)}, begin, at::kLong);
    double right = 0;
    for (std::int64_t place = 0; place < length; ++place) {
      symbol = model->logits(model->step(state, symbol)).narrow(-1, 0, copier.symbols).argmax(-1);
      right += (symbol == strings.select(1, place)).sum().item<double>();
    }
    accuracy.push_back(right / static_cast<double>(strings.numel()));
  }
  return accuracy;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const auto& widths = given.wholes("widths");
  const auto& symbols = given.wholes("symbols");
  const std::int64_t longest = given.whole("longest");
  const double right = given.number("right");
  std::vector<Copier> copiers;
  for (const std::int64_t count : symbols)
    for (const bool attends : {false, true})
      for (const std::int64_t width : widths) copiers.push_back({.width = width, .symbols = count, .attends = attends});
  std::mutex mutex;
  const auto seeds = static_cast<std::size_t>(given.whole("seeds"));
  for (Copier& copier : copiers) copier.of_seeds.resize(seeds);
  side_by_side(std::ssize(copiers) * given.whole("seeds"), host, [&](std::int64_t index) {
    const std::size_t place = static_cast<std::size_t>(index) / seeds, number = static_cast<std::size_t>(index) % seeds;
    Copier& copier = copiers[place];
    copier.of_seeds[number] =
        train_and_measure(copier, given, place, static_cast<std::uint64_t>(given.whole("seed")) + number);
    const std::lock_guard lock(mutex);
    host.progress(fmt::format("{} of {} symbols: {:.3f} right at {}", copier.name(), copier.symbols,
                              copier.of_seeds[number].back(), longest));
  });
  for (Copier& copier : copiers) {
    copier.accuracy.resize(static_cast<std::size_t>(longest));
    for (const std::vector<double>& each : copier.of_seeds)
      for (std::size_t i = 0; i < each.size(); ++i) copier.accuracy[i] += each[i] / static_cast<double>(seeds);
  }
  // What one copier has more than another, of each seed, at the longest strings.
  const auto more = [&](const Copier& one, const Copier& other) {
    std::vector<double> values;
    for (std::size_t i = 0; i < seeds; ++i) values.push_back(one.of_seeds[i].back() - other.of_seeds[i].back());
    return values;
  };
  const auto fall = [&](const Copier& copier) {
    std::vector<double> values;
    for (const std::vector<double>& each : copier.of_seeds) values.push_back(each.front() - each.back());
    return values;
  };

  LabResult result;
  pages::TextTable table{fmt::format("The longest string of which {:g} % of the symbols are right", 100 * right),
                         {"symbols", "units", "no attention", "Bahdanau", "bound d·b / log₂|V|, b = 32"},
                         {}};
  double worst_bound = 0, least_attended = 1;
  for (std::size_t kind = 0; kind < symbols.size(); ++kind) {
    pages::LineChart chart{.title = fmt::format("Copying strings of {} symbols", symbols[kind]),
                           .x = {.title = "symbols of the string"},
                           .y = {.title = "share of them that is right", .min = 0, .max = 1},
                           .series = {}};
    const double bits = std::log2(static_cast<double>(symbols[kind]));
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const Copier& alone = copiers[(2 * kind) * widths.size() + i];
      const Copier& attending = copiers[(2 * kind + 1) * widths.size() + i];
      const double bound = 32 * static_cast<double>(widths[i]) / bits;
      worst_bound = std::max(worst_bound, static_cast<double>(alone.copied(right)) / bound);
      least_attended = std::min(least_attended, attending.accuracy.back());
      table.rows.push_back({std::to_string(symbols[kind]), std::to_string(widths[i]),
                            std::to_string(alone.copied(right)), std::to_string(attending.copied(right)),
                            number_for_readers(std::floor(bound))});
    }
    for (const Copier& copier : copiers) {
      if (copier.symbols != symbols[kind]) continue;
      pages::ChartSeries series{.name = copier.name(), .x = {}, .y = copier.accuracy, .points = false};
      for (std::int64_t length = 1; length <= longest; ++length) series.x.push_back(static_cast<double>(length));
      chart.series.push_back(std::move(series));
    }
    result.charts.push_back(std::move(chart));
    const Copier &small = copiers[2 * kind * widths.size()], &large = copiers[(2 * kind + 1) * widths.size() - 1];
    const Copier& attending = copiers[2 * (kind + 1) * widths.size() - 1];
    const std::string of = fmt::format(" of {} symbols", symbols[kind]);
    result.findings.push_back(
        of_draws({fmt::format("No attention, {} units: right{} at 1, less right at {}", small.width, of, longest),
                  direction, above, 0},
                 fall(small)));
    if (widths.size() > 1)
      result.findings.push_back(of_draws(
          {fmt::format("No attention, {} units less {} units: right{} at {}", large.width, small.width, of, longest),
           direction, above, 0},
          more(large, small)));
    result.findings.push_back(
        of_draws({fmt::format("Bahdanau less no attention, {} units: right{} at {}", large.width, of, longest),
                  direction, above, 0},
                 more(attending, large)));
  }
  if (symbols.size() > 1) {
    const Copier &few = copiers[widths.size() - 1], &many = copiers[(2 * symbols.size() - 1) * widths.size() - 1];
    result.findings.push_back(
        of_draws({fmt::format("No attention, {} units: right of {} symbols less right of {}, at {}", few.width,
                              few.symbols, many.symbols, longest),
                  direction, above, 0},
                 more(few, many)));
  }
  result.findings.push_back({"Longest string copied without attention, over the bound d·b / log₂|V|, at most", nobody,
                             shown, 0, 0, worst_bound,
                             "The bound says what no code can exceed, not what training finds."});
  result.findings.push_back(
      {fmt::format("Bahdanau, at {}: right in the worst case", longest), nobody, shown, 0, 0, least_attended});
  const Copier &alone = copiers[widths.size() - 1], &attending = copiers[2 * widths.size() - 1];
  result.answer = fmt::format(
      "Of strings of {} symbols out of {}, a state of {} numbers alone gives {:.0f} % back, and {:.0f} % with "
      "attention. The table has the longest string that each width and number of symbols gives back.",
      longest, alone.symbols, alone.width, 100 * alone.accuracy.back(), 100 * attending.accuracy.back());
  result.tables = {std::move(table)};
  result.assumptions = {{"What is learned, not what is possible.",
                         "A state of d numbers of 32 bits could hold far longer strings. The "
                         "curves show what gradient descent finds within these steps."},
                        {"Symbols are independent and equally probable.",
                         "Nothing but the state can tell them, so that a string of L "
                         "symbols carries L·log₂|V| bits."},
                        {"A copy reads itself.",
                         "The decoder gets the symbols that it wrote, not the true ones. A guess is right "
                         "1/|V| of the time."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::copy

namespace cogwheel::labs {
LabEntry copy_lab() {
  return {"copy",
          "How much of a string a state gives back",
          "Does a state of fixed width lose more of a string the longer it is, and does attention not?",
          copy::parameters(),
          copy::run,
          copy::check,
          {"steps"}};
}
}  // namespace cogwheel::labs
