// What a model makes of texts longer than those it was trained on: its loss by position. The paper of Cog attention
// supposes that negative weights extrapolate better, and does not test it.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace length {

using tasks::language::LanguageModel;
using tasks::language::LanguageModelImpl;

// Why no longer text can be read; empty: one can.
std::string limit_of(const LanguageModelImpl& model) {
  if (model.options().position == "learned") return "its positions are learned";
  for (std::int64_t layer = 0; layer < model.options().layers; ++layer) {
    const std::string mechanism = tasks::language::layer_mechanism(model.options(), layer);
    if (const RecurrentLaw* const law = find_recurrent_law(mechanism); law != nullptr && law->asks_for_number())
      return "the context is the horizon of " + mechanism;
  }
  return {};
}

// The same weights with room for more tokens.
LanguageModel with_context(const LanguageModelImpl& model, std::int64_t context) {
  tasks::language::LanguageModelOptions options = model.options();
  options.context = context;
  LanguageModel longer(options);
  const auto parameters = model.named_parameters(), buffers = model.named_buffers();
  for (auto& each : longer->named_parameters()) each.value().set_data(parameters[each.key()].detach());
  for (auto& each : longer->named_buffers()) each.value().set_data(buffers[each.key()]);
  return longer;
}

// Of one run.
struct Losses {
  std::int64_t context = 0;
  std::vector<double> by_position = {};  // of the token after each; as long as the texts are
  std::string note = {};                 // why they are not as long as asked for
  std::int64_t texts = 0;

  double mean(std::int64_t from, std::int64_t to) const {
    double sum = 0;
    for (std::int64_t place = from; place < to; ++place) sum += by_position[static_cast<std::size_t>(place)];
    return sum / static_cast<double>(to - from);
  }
};

Losses losses_of(const StudiedRun& run, std::int64_t multiple, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  const LanguageModelImpl& model = **run.model;
  if (!runs::find_task(run.config.task.name).reads_text)
    throw UsageError(expected_got(run.name, "a run on a text, which goes on past the context",
                                  "one of the task " + run.config.task.name));
  Losses found{.context = model.options().context};
  std::int64_t most = multiple;
  if (const std::string limit = limit_of(model); multiple > 1 && !limit.empty()) {
    most = 1;
    found.note = fmt::format("{} is measured up to its context of {} tokens, for {}.", run.name, found.context, limit);
  }
  const std::int64_t held_out = run.task->data(run.config.model, run.config.training).held_out_tokens;
  for (; most > 0 && most * found.context >= held_out; most /= 2)
    found.note = fmt::format("{} holds out {} tokens, too few for {} × its context of {}.", run.name, held_out, most,
                             found.context);
  if (most == 0)
    throw UsageError(expected_got(run.name, fmt::format("held-out text of more than {} tokens", found.context),
                                  std::to_string(held_out)));
  const runs::Batch windows = held_out_of(run, std::max(tokens, most * found.context), most * found.context);
  LanguageModel longer = with_context(model, most * found.context);
  found.texts = windows.inputs.size(0);
  found.by_position.resize(static_cast<std::size_t>(most * found.context));
  for (std::int64_t text = 0; text < found.texts; ++text) {
    const at::Tensor logits = longer->forward(windows.inputs.narrow(0, text, 1))[0];
    const at::Tensor losses =
        at::cross_entropy_loss(logits, windows.targets[text].to(logits.device()), {}, at::Reduction::None)
            .to(at::kCPU, at::kDouble)
            .contiguous();
    for (std::size_t place = 0; place < found.by_position.size(); ++place)
      found.by_position[place] += losses.const_data_ptr<double>()[place] / static_cast<double>(found.texts);
  }
  return found;
}

// Positions from 1, half an octave together: [first, last).
std::pair<std::int64_t, std::int64_t> bin_of(int bin) {
  const auto edge = [](int of) { return static_cast<std::int64_t>(std::ceil(std::exp2(of / 2.) - 1e-9)); };
  return {edge(bin), edge(bin + 1)};
}

pages::ChartSeries series_of(const RunGroup& group, const std::vector<Losses>& losses) {
  std::vector<double> x;
  std::vector<std::vector<double>> values(losses.size());
  std::size_t shortest = losses[group.runs.front()].by_position.size();
  for (const std::size_t run : group.runs) shortest = std::min(shortest, losses[run].by_position.size());
  for (int bin = 0; bin_of(bin).first <= static_cast<std::int64_t>(shortest); ++bin) {
    const std::int64_t first = bin_of(bin).first,
                       last = std::min(bin_of(bin).second, static_cast<std::int64_t>(shortest) + 1);
    if (first == last) continue;
    x.push_back(std::sqrt(static_cast<double>(first) * static_cast<double>(last - 1)));
    for (const std::size_t run : group.runs) values[run].push_back(losses[run].mean(first - 1, last - 1));
  }
  return group_series(group, x, values);
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::int64_t multiple = parameters.whole("multiple");
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  StudyResult result;
  std::vector<Losses> losses;
  std::int64_t farthest = 1;  // of contexts, read by a run
  pages::TextTable by_position{"Every position", {"run", "tokens read", "loss"}, {}};
  for (std::size_t each = 0; each < runs.size(); ++each) {
    const Losses& of = losses.emplace_back(losses_of(runs[each], multiple, parameters.whole("tokens")));
    if (!of.note.empty()) result.notes.push_back(of.note);
    const auto all = std::ssize(of.by_position);
    farthest = std::max(farthest, all / of.context);
    const std::int64_t quarter = std::max<std::int64_t>(1, of.context / 4);
    for (std::int64_t at = 1; at * of.context <= all; at *= 2)
      numbers.set(each, "loss_at", static_cast<double>(at), of.mean(at * of.context - quarter, at * of.context));
    numbers.set(each, "loss_within", of.mean(0, of.context));
    if (all > of.context) {
      numbers.set(each, "loss_late", of.mean(of.context, all));
      numbers.set(each, "rise_late", of.mean(of.context, all) - of.mean(of.context - quarter, of.context));
    }
    for (std::int64_t place = 0; place < all; ++place)
      by_position.rows.push_back(
          {runs[each].name, std::to_string(place + 1), study_number(of.by_position[static_cast<std::size_t>(place)])});
  }
  result.answer = fmt::format(
      "Past its trained context, up to {} times as far, the loss is {}, and in the last quarter within it {}.",
      farthest, numbers.told(groups, "loss_late"), numbers.told(groups, "loss_at", 1));
  result.tables = {{"lengths", table_of_groups("Loss in nats", groups, numbers,
                                               {{"within the context", "loss_within"},
                                                {"past it", "loss_late"},
                                                {"past it less the last quarter within", "rise_late"}})},
                   {"multiples", table_by_place("At the end of so many contexts", "contexts", groups, numbers,
                                                {{"loss", "loss_at"}})},
                   {"positions", by_position, false}};
  pages::LineChart chart{.title = "Loss by position",
                         .x = {.title = "tokens read", .logarithmic = true},
                         .y = {.title = "loss in nats"},
                         .series = {},
                         .caption = "Half an octave of positions together; bars: intervals of 95 % over runs."};
  for (const RunGroup& group : groups) chart.series.push_back(series_of(group, losses));
  const std::int64_t context = losses.front().context;
  if (std::ranges::all_of(losses, [&](const Losses& each) { return each.context == context; }))
    chart.marks.push_back({pages::ChartMark::Axis::x, static_cast<double>(context), "trained context"});
  result.charts.push_back(std::move(chart));
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"The text is what the run's own task holds out,",
       "in windows so many contexts long, each read from its beginning: positions 1 to the end have the same texts."},
      {"At a multiple", "stands the mean of the last quarter of a context before it."},
      {"Past the context positions are new:",
       "rotary angles that training never showed, larger distances of ALiBi; without positions or with a state only "
       "the number of keys is. Learned positions end with their table."},
      {"A model with a window or a state",
       "may gain nothing from a longer text and lose nothing: compare it with loss "
       "within the context."}};
  return result;
}

}  // namespace length

StudyEntry length_study() {
  return {
      .name = "length",
      .title = "Longer than in training",
      .question = "What does a model lose on texts longer than those it was trained on?",
      .parameters =
          {{{"multiple", {8}, {1, 64}, "of the trained context, the longest text; halved until one is held out"},
            {"tokens", {32768}, {64, 1e8}, "of held-out text, about"}}},
      .run = length::run,
      .numbers = {{"loss_at", "loss at the end of so many contexts, mean of a quarter", "trained contexts: 1, 2, 4, …"},
                  {"loss_within", "mean loss within the trained context"},
                  {"loss_late", "mean loss past it"},
                  {"rise_late", "mean loss past it less that of its last quarter"}},
      .reads_held_out = true};
}

}  // namespace cogwheel::inspect
