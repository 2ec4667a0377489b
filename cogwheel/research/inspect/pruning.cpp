// How many heads a model can lose. The paper of Cog attention supposes that its heads are less redundant.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/head_edits.h"
#include "cogwheel/interpret/head_importance.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace pruning {

// Which heads go first is decided on some of the held-out texts, and what is lost is measured on the others.
struct HeldOutHalves {
  at::Tensor tokens, targets, other_tokens, other_targets;
};

HeldOutHalves halves_of(const StudiedRun& run, std::int64_t tokens) {
  const runs::Batch all = held_out_of(run, 2 * std::max(tokens, (*run.model)->options().context));
  const std::int64_t texts = all.inputs.size(0);
  if (texts < 2) throw UsageError(expected_got(run.name, "two held-out windows or more", std::to_string(texts)));
  const at::Tensor places = at::arange(texts), even = places.remainder(2) == 0;
  const auto of = [&](const at::Tensor& from, const at::Tensor& which) {
    return from.index_select(0, which.nonzero().squeeze(1));
  };
  return {of(all.inputs, even), of(all.targets, even), of(all.inputs, even.logical_not()),
          of(all.targets, even.logical_not())};
}

// Outputs of heads of one text, by which edits know which heads there are.
interpret::HeadOutputs outputs_of(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  const torch::NoGradGuard no_gradient;
  interpret::HeadOutputs outputs(model.layers().size());
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::heads,
             [&](const nn::HookPoint& at, const at::Tensor& z) { outputs[static_cast<std::size_t>(at.layer)] = z; });
  model.forward(tokens, {.hooks = &hooks});
  return outputs;
}

double loss_without(tasks::language::LanguageModelImpl& model, const HeldOutHalves& texts,
                    const interpret::HeadOutputs& own, const std::vector<interpret::HeadPlace>& removed) {
  const torch::NoGradGuard no_gradient;
  std::vector<interpret::HeadEdit> edits;
  for (const interpret::HeadPlace& place : removed)
    edits.push_back({place.layer, place.head, interpret::HeadEditKind::zero});
  nn::Hooks hooks;
  interpret::edit_heads(hooks, edits, own, {});
  double sum = 0, told = 0;
  const std::int64_t together = std::max<std::int64_t>(1, 2048 / texts.other_tokens.size(1));
  for (std::int64_t first = 0; first < texts.other_tokens.size(0); first += together) {
    const std::int64_t count = std::min(together, texts.other_tokens.size(0) - first);
    const at::Tensor targets = texts.other_targets.narrow(0, first, count);
    const double counted = targets.ne(ignored_target).sum().item<double>();
    sum += counted * model.loss(texts.other_tokens.narrow(0, first, count), targets, {.hooks = &hooks}).item<double>();
    told += counted;
  }
  return sum / told;
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  parameters.expect_rising("shares");
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  pages::TextTable order{"Heads from the least important", {"run", "place", "head", "importance"}, {}};
  for (std::size_t each = 0; each < runs.size(); ++each) {
    tasks::language::LanguageModelImpl& model = **runs[each].model;
    const HeldOutHalves texts = halves_of(runs[each], parameters.whole("tokens"));
    const std::vector<at::Tensor> importance = interpret::head_importance(model, texts.tokens, texts.targets);
    const std::vector<interpret::HeadPlace> places = interpret::from_least_important(importance);
    if (places.empty()) throw UsageError(expected_got(runs[each].name, "layers with heads", model.options().mechanism));
    for (std::size_t place = 0; place < places.size(); ++place)
      order.rows.push_back(
          {runs[each].name, std::to_string(place + 1), head_name(places[place].layer, places[place].head),
           study_number(importance[static_cast<std::size_t>(places[place].layer)][places[place].head].item<double>())});
    const interpret::HeadOutputs own = outputs_of(model, texts.tokens.narrow(0, 0, 1));
    const double whole = loss_without(model, texts, own, {});
    numbers.set(each, "loss", whole);
    numbers.set(each, "heads", static_cast<double>(places.size()));
    double spared = 0;
    std::vector<double> rises;
    for (const double share : parameters.numbers("shares")) {
      const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(places.size())));
      const double rise =
          loss_without(model, texts, own, {places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count)}) -
          whole;
      numbers.set(each, "rise", share, rise);
      rises.push_back(rise);
      if (rise <= parameters.number("tolerance")) spared = share;
    }
    numbers.set(each, "spared", spared);
    numbers.set(each, "mean_rise", mean_of_finite(rises));
  }
  StudyResult result;
  result.answer = fmt::format("Without costing more than {:g} nats, the largest share of heads that can go is {}.",
                              parameters.number("tolerance"), numbers.told(groups, "spared", {}, "{:.2g}"));
  result.tables = {{"shares", table_by_place("What removing heads costs", "share removed", groups, numbers,
                                             {{"rise of the loss", "rise"}})},
                   {"models", table_of_groups("Models", groups, numbers,
                                              {{"heads", "heads"},
                                               {"loss with all", "loss"},
                                               {"mean rise", "mean_rise"},
                                               {"share that can go", "spared"}})},
                   {"order", order, false}};
  pages::LineChart chart{.title = "Loss without the least important heads",
                         .x = {.title = "share of the heads removed"},
                         .y = {.title = "rise of the loss in nats"},
                         .series = {},
                         .caption = "Bars: intervals of 95 % over runs."};
  for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, "rise"));
  result.charts.push_back(std::move(chart));
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"Importance is a gradient:",
       "the mean over texts of |∂L/∂ξ|, ξ a factor of the head's output, divided by its norm in each layer (Michel et "
       "al. 2019). It is first order: heads that stand in for each other all look unimportant."},
      {"Which heads go is decided on half of the held-out windows,", "and the loss measured on the other half."},
      {"A removed head gives 0,", "and nothing is trained after it. Biases of the output stay."},
      {"Heads of a difference of two maps", "are half as many and twice as wide: shares compare, counts do not."}};
  return result;
}

}  // namespace pruning

StudyEntry pruning_study() {
  return {
      .name = "pruning",
      .title = "How many heads can go",
      .question = "What does a model lose without its least important heads?",
      .parameters = {{{.name = "shares",
                       .values = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9},
                       .range = {0, 1},
                       .meaning = "of all heads, removed together, rounded to whole heads",
                       .kind = LabParameter::Kind::real,
                       .list = true},
                      {"tokens", {8192}, {64, 1e7}, "of held-out text, about, for importance and for the loss each"},
                      {"tolerance", {0.05}, {0, 10}, "of the loss, in nats", LabParameter::Kind::real}}},
      .run = pruning::run,
      .numbers = {{"rise", "rise of the loss, of so large a share of the heads removed", "share, one of shares"},
                  {"mean_rise", "the same, mean over shares"},
                  {"spared", "the largest share whose removal costs no more than tolerance"},
                  {"loss", "held-out loss with all heads"},
                  {"heads", "how many heads there are"}},
      .reads_held_out = true};
}

}  // namespace cogwheel::inspect
