// What a model loses where a cache forgets keys. The paper of Cog attention supposes that its caches compress better.
#include "cogwheel/interpret/kept_keys.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace kept_keys {

struct Way {
  interpret::KeptKeys kept;
  const char *name, *meaning;
};
constexpr Way ways[] = {
    {interpret::KeptKeys::newest, "newest", "the newest keys"},
    {interpret::KeptKeys::heaviest, "heaviest", "the keys that the query weighs most, by |a|"},
    {interpret::KeptKeys::accumulated, "accumulated",
     "half the newest and half those that queries so far weighed most, by Σ|a|, as H2O keeps them"}};

bool has_keys(const tasks::language::LanguageModelImpl& model) {
  return std::ranges::any_of(model.layers(), [](const nn::TransformerBlock& layer) {
    return layer->has_hook(nn::HookPlace::scores) && !layer->only_reads(nn::HookPlace::pattern);
  });
}

double loss_of(tasks::language::LanguageModelImpl& model, const runs::Batch& texts, const nn::Hooks* hooks) {
  const torch::NoGradGuard no_gradient;
  double sum = 0, told = 0;
  const std::int64_t together = std::max<std::int64_t>(1, 2048 / texts.inputs.size(1));
  for (std::int64_t first = 0; first < texts.inputs.size(0); first += together) {
    const std::int64_t count = std::min(together, texts.inputs.size(0) - first);
    const at::Tensor targets = texts.targets.narrow(0, first, count);
    const double counted = targets.ne(ignored_target).sum().item<double>();
    sum += counted * model.loss(texts.inputs.narrow(0, first, count), targets, {.hooks = hooks}).item<double>();
    told += counted;
  }
  return sum / told;
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  const bool renormalised = parameters.whole("renormalise") == 1;
  NumbersByRun numbers(runs.size());
  StudyResult result;
  for (std::size_t each = 0; each < runs.size(); ++each) {
    tasks::language::LanguageModelImpl& model = **runs[each].model;
    if (!has_keys(model))
      throw UsageError(expected_got(runs[each].name, "layers that keep keys", model.options().mechanism));
    const runs::Batch texts = held_out_of(runs[each], parameters.whole("tokens"));
    if (texts.inputs.size(0) == 0)
      throw UsageError(expected_got(runs[each].name, "held-out text as long as its context", "less"));
    const double whole = loss_of(model, texts, nullptr);
    numbers.set(each, "loss", whole);
    for (const Way& way : ways)
      for (const double share : parameters.numbers("shares")) {
        nn::Hooks hooks;
        for (std::size_t layer = 0; layer < model.layers().size(); ++layer)
          if (model.layers()[layer]->has_hook(nn::HookPlace::scores))
            hooks.replace(
                nn::HookPlace::pattern,
                [&](const nn::HookPoint&, const at::Tensor& maps) {
                  return interpret::with_kept_keys(maps, way.kept, share, renormalised, model.options().window);
                },
                static_cast<std::int64_t>(layer));
        numbers.set(each, way.name, share, loss_of(model, texts, &hooks) - whole);
      }
  }
  const double least = std::ranges::min(parameters.numbers("shares"));
  result.answer = fmt::format(
      "With room for {:g} of the keys the loss rises by {} where the newest are kept and by {} where half of them are "
      "those that queries weighed most.",
      least, numbers.told(groups, "newest", least), numbers.told(groups, "accumulated", least));
  result.tables = {{"shares", table_by_place("Rise of the loss in nats", "share kept", groups, numbers,
                                             {{"newest", "newest"},
                                              {"heaviest of each query", "heaviest"},
                                              {"heaviest so far and newest", "accumulated"}})},
                   {"models", table_of_groups("Models", groups, numbers, {{"loss with all keys", "loss"}})}};
  for (const Way& way : ways) {
    pages::LineChart chart{.title = std::string("Kept: ") + way.meaning,
                           .x = {.title = "share of the keys kept", .logarithmic = true},
                           .y = {.title = "rise of the loss in nats"},
                           .series = {},
                           .caption = "In every layer at once. Bars: intervals of 95 % over runs."};
    for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, way.name));
    result.charts.push_back(std::move(chart));
  }
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"A share is of the keys of a whole text:",
       "the cache of each head has room for ⌈share · N⌉, of N tokens of context, and forgets where it is full."},
      {"Heaviest of each query",
       "is what no cache can know before the query is there: the least that can be lost by "
       "size. |a| and not a: a large negative weight counts."},
      {"Heaviest so far and newest",
       "is H2O (Zhang et al. 2023) with |a|: half the newest keys, half those with the largest Σ|a| over the queries "
       "so "
       "far, and what is dropped does not come back."},
      renormalised
          ? std::pair<std::string,
                      std::string>{"What is left of a row is scaled to the Σ|a| that it had,",
                                   "which is softmax, or Cog, of the keys that are left. Of a difference of "
                                   "two maps it is not: the maps are cut after they are subtracted."}
          : std::pair<std::string, std::string>{"Rows are not scaled:", "their Σ|a| falls with what is dropped."},
      {"Nothing is trained for it,", "and layers that carry a state instead of keys stay as they are."}};
  return result;
}

}  // namespace kept_keys

StudyEntry kept_keys_study() {
  StudyEntry entry{
      .name = "kept_keys",
      .title = "With some of the keys",
      .question = "What does a model lose where each query keeps only some of its keys?",
      .parameters = {{{.name = "shares",
                       .values = {1, 0.5, 0.25, 0.125, 0.0625},
                       .range = {1e-6, 1},
                       .meaning = "of the keys of a text, for which a cache has room",
                       .kind = LabParameter::Kind::real,
                       .list = true},
                      {"tokens", {4096}, {64, 1e7}, "of held-out text, about"},
                      {"renormalise", {1}, {0, 1}, "1: rows keep their Σ|a|; 0: they lose what is dropped"}}},
      .run = kept_keys::run,
      .numbers = {{"loss", "held-out loss with all keys"}},
      .reads_held_out = true};
  for (const kept_keys::Way& way : kept_keys::ways)
    entry.numbers.push_back({way.name, std::string("rise of the loss, kept: ") + way.meaning, "share, one of shares"});
  return entry;
}

}  // namespace cogwheel::inspect
