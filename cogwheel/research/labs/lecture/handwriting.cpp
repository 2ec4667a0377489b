// Handwriting with Graves' window and without: what the text tells about the next point of the pen,
// that the window only moves forward, and how much of what is drawn can be read.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "cogwheel/nn/model_holder.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"
#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/tasks/handwriting/generated_handwriting.h"
#include "cogwheel/tasks/handwriting/stroke_batches.h"

namespace cogwheel::labs::pens {
namespace {

LabParameters parameters() {
  std::vector<LabParameter> all{{"width", {128}, {16, 1024}, "units of each of three LSTM layers"},
                                {"characters", {16}, {4, 100}, "of the longest line"},
                                {"words", {50}, {1, 100}, "unseen ones that are drawn at bias 1 and read back"},
                                {"lines", {64}, {1, 500}, "unseen ones over which the window is followed"}};
  all.push_back(seeds_parameter());
  for (LabParameter& each : training_parameters(800, 32, 0.002)) all.push_back(std::move(each));
  return all;
}

struct Kind {
  const char *name, *mechanism;
};
constexpr Kind kinds[] = {{"window", "graves_window"}, {"no window", "none"}};

// Run by run.
std::vector<LabModel> models(const LabParameters& given) {
  std::vector<LabModel> all;
  for (std::int64_t run = 0; run < given.whole("seeds"); ++run)
    for (const Kind& kind : kinds) {
      tasks::handwriting::HandwritingOptions options;
      options.width = given.whole("width");
      options.mechanism = kind.mechanism;
      LabModel model{.name = kind.name, .config = {}};
      model.config.task = {"handwriting", {{"characters", given.whole("characters")}}};
      model.config.model = options;
      model.config.training = training_options(given, run);
      all.push_back(std::move(model));
    }
  return all;
}

struct Followed {
  double smallest_step = std::numeric_limits<double>::infinity();  // of any κ from one point to the next
  double backward = 0;  // share of points at which the centre of mass of φ moves back
};

// The window over true strokes.
Followed follow(tasks::handwriting::HandwritingImpl& model, const tasks::handwriting::StrokeSource& source,
                std::int64_t lines) {
  const torch::NoGradGuard no_grad;
  const auto some = source.held_out().first(std::min(source.held_out().size(), static_cast<std::size_t>(lines)));
  const tasks::handwriting::StrokeBatch batch =
      tasks::handwriting::stroke_batch(some, source.scale(), source.alphabet().get());
  const tasks::handwriting::WrittenText text = model.text(batch.characters, batch.character_lengths);
  tasks::handwriting::PenState state = model.first_state(batch.points.size(0));
  Followed followed;
  double points = 0;
  at::Tensor before;
  const at::Tensor places = at::arange(1, text.characters.size(1) + 2, at::kFloat);
  for (std::int64_t place = 0; place < batch.points.size(1); ++place) {
    const at::Tensor kappa = state.kappa;
    const at::Tensor window = model.forward(batch.points.narrow(1, place, 1), text, state).window.select(1, 0);
    const at::Tensor written = batch.lengths > place;
    followed.smallest_step =
        std::min(followed.smallest_step,
                 (state.kappa - kappa).index_select(0, written.nonzero().squeeze(1)).min().item<double>());
    const at::Tensor center = (window * places).sum(-1) / window.sum(-1);
    if (before.defined()) {
      points += written.sum().item<double>();
      followed.backward += at::logical_and(center < before, written).sum().item<double>();
    }
    before = center;
  }
  followed.backward /= points;
  return followed;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  std::vector<TrainedModel> trained = train_models(models(given), host);
  const auto source = tasks::handwriting::built_in_strokes({.max_characters = given.whole("characters")});
  std::vector<Followed> followed(trained.size());  // of those with a window
  std::vector<runs::Inspection> inspections(trained.size());
  side_by_side(std::ssize(trained), host, [&](std::int64_t index) {
    const auto place = static_cast<std::size_t>(index);
    auto model = nn::holder_of<tasks::handwriting::Handwriting>(*trained[place].run.model());
    inspections[place] = tasks::handwriting::show_handwriting(
        model, *source, static_cast<std::uint64_t>(given.whole("seed")) + place / std::size(kinds),
        given.whole("words"));
    if (model->has_window()) followed[place] = follow(*model, *source, given.whole("lines"));
  });

  LabResult result;
  pages::LineChart curves{.title = "Learning to write",
                          .x = {.title = "training steps"},
                          .y = {.title = "held-out loss, nats per point"},
                          .series = {}};
  // Curves and figures of the first run.
  for (std::size_t i = 0; i < std::size(kinds); ++i) curves.series.push_back(trained[i].curve);
  result.charts = {std::move(curves)};
  for (std::size_t i = 0; i < std::size(kinds); ++i)
    for (const runs::ShownFigure& figure : inspections[i].figures)
      result.figures.push_back(runs::drawn_figure(figure.titled(trained[i].name + ": " + figure.title())));
  result.tables = std::move(inspections[0].tables);
  const auto of_runs = [&](const auto& number) { return labs::of_runs(trained.size(), std::size(kinds), number); };
  constexpr std::size_t window = 0, none = 1;  // places of the kinds
  const auto loss = [&](std::size_t kind) {
    return number_for_readers(mean_of(of_runs([&](std::size_t first) { return trained[first + kind].loss; })).value);
  };
  const double smallest_step =
      std::ranges::min(of_runs([&](std::size_t first) { return followed[first + window].smallest_step; }));
  result.answer = fmt::format(
      "With the text at hand the next point of the pen costs {} nats, without it {}. {} of the window moves back from "
      "one point to the next.",
      loss(window), loss(none), smallest_step >= 0 ? "No part" : "A part");
  result.findings = {
      {"Smallest movement of a κ from one point to the next, in characters", direction, above, 0, 0, smallest_step},
      of_draws({"Share of points at which the middle of the window moves back", nobody, shown, 0, 0, 0,
                "No κ moves back, but importances α change from point to point, and with them where most of the weight "
                "is."},
               of_runs([&](std::size_t first) { return followed[first + window].backward; })),
      of_draws({"Held-out loss without the window less that with it, nats per point", direction, above},
               of_runs([&](std::size_t first) { return trained[first + none].loss - trained[first + window].loss; })),
      of_draws({"Share of characters drawn at bias 1 that are read as what they are", nobody, shown},
               of_runs([&](std::size_t first) {
                 return *runs::find_value(inspections[first + window].numbers, tasks::handwriting::share_read);
               }))};
  result.assumptions = {{"Strokes of a built-in font.",
                         "With slant, size, speed, jitter and joins drawn for each line; people's "
                         "handwriting varies more. `cogwheel train` takes that of IAM-OnDB."},
                        {"A small network, trained for minutes.",
                         "Graves has three layers of 400. With more training more of the letters can be read."},
                        {"A line without its text.",
                         "The network without a window writes what looks like writing; there is nothing to "
                         "read it as."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::pens

namespace cogwheel::labs {
LabEntry handwriting_lab() {
  return {"handwriting",
          "The window that writes",
          "Does a window over the text tell what to write next, and does it only move forward?",
          pens::parameters(),
          pens::run,
          any_parameters,
          steps_size()};
}
}  // namespace cogwheel::labs
