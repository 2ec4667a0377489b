// Whether what stands in the middle of a text is found as well as what stands at its ends: Liu et al., "Lost in the
// Middle" (2024). The paper of Cog attention supposes that negative weights help.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace needle {

constexpr int tenths = 10;

// Answers by the place of what they ask for, in tenths from the first pair to the last.
struct Answers {
  std::array<double, tenths + 1> right{}, asked{};

  double accuracy(int from, int to) const {
    double sum = 0, all = 0;
    for (int place = from; place <= to; ++place)
      sum += right[static_cast<std::size_t>(place)], all += asked[static_cast<std::size_t>(place)];
    return sum / all;
  }
};

// Of one sequence "key value key value … | key key …": keys written once, and the pairs there are.
struct Pairs {
  std::map<std::int64_t, std::int64_t> place_of = {};
  std::int64_t count = 0;
};

Pairs pairs_of(const std::int64_t* tokens, std::int64_t length, std::int64_t separator) {
  Pairs pairs;
  std::map<std::int64_t, int> times;
  while (2 * pairs.count < length && tokens[2 * pairs.count] != separator) {
    ++times[tokens[2 * pairs.count]];
    pairs.place_of[tokens[2 * pairs.count]] = pairs.count;
    ++pairs.count;
  }
  std::erase_if(pairs.place_of, [&](const auto& each) { return times[each.first] > 1; });
  return pairs;
}

Answers answers_of(const StudiedRun& run, std::int64_t sequences) {
  const torch::NoGradGuard no_gradient;
  tasks::language::LanguageModelImpl& model = **run.model;
  if (run.config.task.name != "recall")
    throw UsageError(expected_got(run.name, "a run of the task recall", "one of the task " + run.config.task.name));
  const std::int64_t separator = model.options().vocabulary - 1;
  const runs::Batch all = held_out_of(run, sequences * model.options().context);
  const std::int64_t length = all.inputs.size(1);
  const std::int64_t* const tokens = all.inputs.const_data_ptr<std::int64_t>();
  std::vector<Pairs> pairs;
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < all.inputs.size(0); ++row) {
    pairs.push_back(pairs_of(tokens + row * length, length, separator));
    most = std::max(most, pairs.back().count);
  }
  if (most < 3) throw UsageError(expected_got(run.name, "sequences of three pairs or more", std::to_string(most)));
  Answers found;
  constexpr std::int64_t together = 32;
  for (std::int64_t first = 0; first < all.inputs.size(0); first += together) {
    const std::int64_t count = std::min(together, all.inputs.size(0) - first);
    const at::Tensor given = model.forward(all.inputs.narrow(0, first, count)).argmax(-1).contiguous();
    for (std::int64_t row = first; row < first + count; ++row) {
      const Pairs& of = pairs[static_cast<std::size_t>(row)];
      if (2 * of.count <= most) continue;  // of few pairs the middle is near
      for (std::int64_t place = 2 * of.count + 1; place < length; ++place) {
        const std::int64_t right = all.targets.const_data_ptr<std::int64_t>()[row * length + place];
        const auto asked = of.place_of.find(tokens[row * length + place]);
        if (right == ignored_target || asked == of.place_of.end()) continue;
        const auto tenth = static_cast<std::size_t>(
            std::llround(tenths * static_cast<double>(asked->second) / static_cast<double>(of.count - 1)));
        found.asked[tenth] += 1;
        found.right[tenth] += given.const_data_ptr<std::int64_t>()[(row - first) * length + place] == right ? 1 : 0;
      }
    }
  }
  return found;
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  for (std::size_t each = 0; each < runs.size(); ++each) {
    const Answers of = answers_of(runs[each], parameters.whole("sequences"));
    for (int place = 0; place <= tenths; ++place) {
      numbers.set(each, "accuracy_at", place / 10., of.accuracy(place, place));
      numbers.set(each, "answers_at", place / 10., of.asked[static_cast<std::size_t>(place)]);
    }
    const double first = of.accuracy(0, 1), middle = of.accuracy(4, 6), last = of.accuracy(tenths - 1, tenths);
    numbers.set(each, "accuracy", of.accuracy(0, tenths));
    numbers.set(each, "first", first);
    numbers.set(each, "last", last);
    numbers.set(each, "middle", (first + last) / 2 - middle);
  }
  StudyResult result;
  result.answer = fmt::format("Pairs at the ends of a text are recalled better than those in its middle by {}.",
                              numbers.told(groups, "middle", {}, "{:.2g}"));
  result.tables = {
      {"models",
       table_of_groups(
           "Accuracy", groups, numbers,
           {{"in all", "accuracy"}, {"first fifth", "first"}, {"last fifth", "last"}, {"ends less middle", "middle"}})},
      {"places", table_by_place("By the place of the pair that is asked for", "place", groups, numbers,
                                {{"accuracy", "accuracy_at"}, {"answers", "answers_at"}})}};
  pages::LineChart chart{.title = "Accuracy by place",
                         .x = {.title = "place of the pair, 0 the first and 1 the last", .min = 0., .max = 1.},
                         .y = {.title = "accuracy", .min = 0., .max = 1.},
                         .series = {},
                         .caption = "Bars: intervals of 95 % over runs."};
  for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, "accuracy_at"));
  result.charts.push_back(std::move(chart));
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"Sequences are held out:",
       "those on which the run is measured, of more than half the pairs that the longest has."},
      {"Keys that were written twice are left out:", "the second value hides the first, wherever it stands."},
      {"All pairs are asked for after the last one,",
       "so the first pair is also the farthest. A place that is asked for "
       "later is a little farther, whichever it is."},
      {"An accuracy of 1 everywhere has no middle:", "take more pairs, or look at the run before it learned them."}};
  return result;
}

}  // namespace needle

StudyEntry needle_study() {
  return {
      .name = "needle",
      .title = "Lost in the middle",
      .question = "Is what stands in the middle of a text recalled as well as what stands at its ends?",
      .parameters = {{{"sequences", {256}, {8, 1e5}, "held out, about"}}},
      .run = needle::run,
      .numbers = {{"accuracy_at", "accuracy by the place of the pair", "place, in tenths from 0 (first) to 1 (last)"},
                  {"answers_at", "how many answers that is the mean of", "place, in tenths from 0 (first) to 1 (last)"},
                  {"accuracy", "accuracy at all places"},
                  {"first", "accuracy at the first fifth"},
                  {"last", "accuracy at the last fifth"},
                  {"middle", "mean accuracy of the two less that of the middle, places 0.4 to 0.6"}},
      .reads_held_out = true};
}

}  // namespace cogwheel::inspect
