// How much each layer changes a token's state: Liu et al. (2020) and Xie et al. (2023) call it collapse where states of
// consecutive layers are alike, and the paper of Cog attention takes up the word.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace layers {

// [N, width] float64, the stream before the first layer and after each.
std::vector<at::Tensor> states_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  std::vector<at::Tensor> states;
  nn::Hooks hooks;
  for (const nn::HookPlace place : {nn::HookPlace::full_embedding, nn::HookPlace::stream_after})
    hooks.read(place, [&](const nn::HookPoint&, const at::Tensor& x) { states.push_back(x[0].to(at::kDouble)); });
  (*run.model)->forward(token_row(run, tokens), {.hooks = &hooks});
  return states;
}

double mean_cosine(const at::Tensor& one, const at::Tensor& other) {
  return at::cosine_similarity(one, other, -1).mean().item<double>();
}

at::Tensor centred(const at::Tensor& states) { return states - states.mean(0); }

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  for (std::size_t each = 0; each < runs.size(); ++each) {
    const std::vector<at::Tensor> states = states_of(runs[each], parameters.whole("tokens"));
    std::vector<double> next, next_centred;
    for (std::size_t layer = 0; layer + 1 < states.size(); ++layer) {
      const auto at = static_cast<double>(layer);
      const at::Tensor &before = states[layer], &after = states[layer + 1];
      next.push_back(mean_cosine(before, after));
      next_centred.push_back(mean_cosine(centred(before), centred(after)));
      numbers.set(each, "next_cosine_of_layer", at, next.back());
      numbers.set(each, "centred_next_cosine_of_layer", at, next_centred.back());
      numbers.set(each, "input_cosine_of_layer", at, mean_cosine(states.front(), after));
      numbers.set(each, "growth_of_layer", at, (after.norm(2, -1) / before.norm(2, -1)).mean().item<double>());
    }
    numbers.set(each, "mean_next_cosine", mean_of_finite(next));
    numbers.set(each, "mean_centred_next_cosine", mean_of_finite(next_centred));
  }
  StudyResult result;
  result.answer = fmt::format("The cosine of a token's states before and after a layer is {} on average over layers.",
                              numbers.told(groups, "mean_next_cosine"));
  result.tables = {{"layers", table_by_place("By layer, mean over tokens", "layer", groups, numbers,
                                             {{"cosine with the state before", "next_cosine_of_layer"},
                                              {"the same, mean state taken off", "centred_next_cosine_of_layer"},
                                              {"cosine with the first layer's input", "input_cosine_of_layer"},
                                              {"‖x‖ over that before", "growth_of_layer"}})},
                   {"models", table_of_groups("Mean over layers", groups, numbers,
                                              {{"cosine with the state before", "mean_next_cosine"},
                                               {"mean state taken off", "mean_centred_next_cosine"}})}};
  for (const auto& [title, number] :
       {std::pair{"Cosine of states before and after a layer", "next_cosine_of_layer"},
        std::pair{"Cosine of the state after a layer with the first layer’s input", "input_cosine_of_layer"}}) {
    pages::LineChart chart{.title = title,
                           .x = {.title = "layer"},
                           .y = {.title = "cosine"},
                           .series = {},
                           .caption = "Mean over tokens; bars: intervals of 95 % over runs."};
    for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, number));
    result.charts.push_back(std::move(chart));
  }
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"The state is the residual stream,",
       "to which a layer adds: as the stream grows, later layers turn it less, whatever they do."},
      {"A cosine near 1 may be a common part:",
       "states of all tokens share a mean, which no layer has to change. The centred cosine takes it off."},
      {"Depth decides:", "compare models of as many layers."}};
  return result;
}

}  // namespace layers

StudyEntry layers_study() {
  const std::string layer = "layer, from 0";
  return {
      .name = "layers",
      .title = "What each layer changes",
      .question = "How alike are a token's states in consecutive layers?",
      .parameters = {{{"tokens", {128}, {2, 4096}, "of the text, as far as it goes and the context holds them"}}},
      .run = layers::run,
      .reads_text = true,
      .numbers = {{"next_cosine_of_layer", "cosine of a token's states before and after a layer", layer},
                  {"centred_next_cosine_of_layer", "the same with the mean over tokens taken off", layer},
                  {"input_cosine_of_layer", "cosine of the state after a layer with the first layer's input", layer},
                  {"growth_of_layer", "norm of the state after a layer over that before", layer},
                  {"mean_next_cosine", "the first, mean over layers"},
                  {"mean_centred_next_cosine", "the second, mean over layers"}}};
}

}  // namespace cogwheel::inspect
