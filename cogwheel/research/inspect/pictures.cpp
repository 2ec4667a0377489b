// What models of diffusion draw from equal noise, and how far a set of it lies from the images that they learned from.
#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/core/error.h"
#include "cogwheel/pages/headline.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::inspect {
namespace pictures {

constexpr const char* classifier_distance = "classifier_distance";

// The first run of equal data. A classifier tells nothing of the model, so these share one, which the first of them
// keeps.
const StudiedRun& first_of_equal_data(const std::vector<StudiedRun>& runs, const StudiedRun& run) {
  const runs::TaskOptions& task = run.config.task;
  return *std::ranges::find_if(runs, [&](const StudiedRun& other) {
    return other.config.task.name == task.name && other.config.task.values == task.values;
  });
}

runs::Inspection inspection_of(const StudiedRun& run, const runs::ThoroughInspection& options) {
  const runs::RunFolder folder = runs::find_checkpoint(run.checkpoint).folder;
  const auto task = compare::task_of_run(run.config, folder.path());
  if (!task->generates_images())
    throw UsageError(expected_got(run.name, "a run that draws images", "one of the task " + run.config.task.name));
  const torch::NoGradGuard no_gradient;
  return task->inspect(*runs::load_model(run.config, folder), *options.seed, &options);
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  StudyResult result;
  NumbersOfRuns distances{.name = classifier_distance, .values = {}};
  pages::TextTable table{"Every run", {"run", "mechanism", "classifier distance"}, {}};
  // 0: those that are kept are taken as they are.
  const std::int64_t steps = parameters.whole("classifier_steps");
  const std::optional<std::int64_t> trained_for = steps > 0 ? std::optional(steps) : std::nullopt;
  for (const StudiedRun& each : runs) {
    const StudiedRun& keeper = first_of_equal_data(runs, each);
    const runs::ThoroughInspection options{.samples = parameters.whole("samples"),
                                           .sampler_steps = parameters.whole("sampler_steps"),
                                           .seed = static_cast<std::uint64_t>(parameters.whole("seed")),
                                           .classifier_steps = &keeper == &each ? trained_for : std::nullopt,
                                           .folder = runs::find_checkpoint(keeper.checkpoint).folder.path()};
    const runs::Inspection found = inspection_of(each, options);
    const double* const distance = runs::find_value(found.numbers, classifier_distance);
    distances.values.push_back(distance == nullptr ? std::numeric_limits<double>::quiet_NaN() : *distance);
    table.rows.push_back({each.name, runs::common(each.config.model).mechanism, study_number(distances.values.back())});
    for (const runs::ShownFigure& figure : found.figures)
      result.figures.push_back(runs::drawn_figure(figure.titled(each.name + ": " + figure.title())));
  }
  pages::TextTable means{"Distance of what is drawn", {"model", "runs", "classifier distance"}, {}};
  std::vector<pages::Told> told;
  for (const RunGroup& group : groups_of(runs)) {
    const compare::Estimate mean = mean_of_group(group, distances.values);
    means.rows.push_back({group.name, std::to_string(group.runs.size()), estimate_text(mean)});
    told.push_back({group.said, mean.mean, fmt::format("{:.3g}", mean.mean)});
  }
  result.answer = fmt::format("The distance of {} drawn images from those of the data is {}.",
                              parameters.whole("samples"), pages::told(told));
  result.tables = {{"distances", means}, {"runs", table}};
  result.numbers = {std::move(distances)};
  result.remarks = {
      {"Classifier distance is no FID:",
       "it is the Fréchet distance of the features of a small classifier that is trained here, the same for all runs "
       "of "
       "equal data, and compares with nothing else. Fewer images than its 128 features leave directions without "
       "spread."},
      {"Images of one place", "are drawn from equal noise in every model."},
      {"FID as published",
       "takes 50,000 images and Inception-v3: `cogwheel evaluate RUN --samples 50000 --inception FILE`."}};
  return result;
}

}  // namespace pictures

StudyEntry pictures_study() {
  return {.name = "pictures",
          .title = "What models draw from equal noise",
          .question = "What does each model draw from the same noise, and how far is it from the images of the data?",
          .parameters = {{{"samples", {500}, {2, 100000}, "images, drawn and measured as a whole"},
                          {"sampler_steps", {20}, {1, 1000}, "from noise to image"},
                          {"classifier_steps",
                           {0},
                           {0, 1e6},
                           "to train the classifier anew; 0: the one that the first run keeps, or 1,500"},
                          {"seed", {1}, {0, 1e9}, "of the noise"}}},
          .run = pictures::run,
          .numbers = {{pictures::classifier_distance,
                       "of drawn images from those of the data, in features of a classifier trained here"}},
          .asks = Asked::read_by_the_study,
          .size = "samples"};
}

}  // namespace cogwheel::inspect
