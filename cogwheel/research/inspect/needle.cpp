// Whether what stands in the middle of a text is found as well as what stands at its ends: Liu et al., "Lost in the
// Middle" (2024). The paper of Cog attention supposes that negative weights help.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/needle_accuracy.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace needle {

interpret::NeedleAccuracy accuracy_of(const StudiedRun& run, std::int64_t sequences) {
  const torch::NoGradGuard no_gradient;
  tasks::language::LanguageModelImpl& model = **run.model;
  if (run.config.task.name != "recall")
    throw UsageError(expected_got(run.name, "a run of the task recall", "one of the task " + run.config.task.name));
  const runs::Batch all = held_out_of(run, sequences * model.options().context);
  std::vector<at::Tensor> given;
  for (const at::Tensor& some : all.inputs.split(32)) given.push_back(model.forward(some).argmax(-1));
  return interpret::needle_accuracy(all.inputs, all.targets, at::cat(given), model.options().vocabulary - 1);
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  for (std::size_t each = 0; each < runs.size(); ++each) {
    const interpret::NeedleAccuracy of = accuracy_of(runs[each], parameters.whole("sequences"));
    for (int place = 0; place <= interpret::NeedleAccuracy::tenths; ++place) {
      numbers.set(each, "accuracy_at", place / 10., of.accuracy(place, place));
      numbers.set(each, "answers_at", place / 10., of.asked[static_cast<std::size_t>(place)]);
    }
    const double first = of.accuracy(0, 1), middle = of.accuracy(4, 6), last = of.accuracy(9, 10);
    numbers.set(each, "accuracy", of.accuracy(0, 10));
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
