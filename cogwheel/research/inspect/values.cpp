// Whether the values of heads are normal with mean 0, as the paper of Cog attention supposes where it says that outputs
// keep their size.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/interpret/value_statistics.h"
#include "cogwheel/research/inspect/held_out.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/research/inspect/study_numbers.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::inspect {
namespace values {

// Of one layer: values [heads of values, tokens, width], and the mean norm of the output of each head.
struct Layer {
  std::vector<at::Tensor> values = {}, output_norms = {};  // a part of the tokens each
};

std::map<std::int64_t, Layer> layers_of(const StudiedRun& run, std::int64_t tokens) {
  const torch::NoGradGuard no_gradient;
  const runs::Batch texts = held_out_of(run, tokens);
  std::map<std::int64_t, Layer> layers;
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::value, [&](const nn::HookPoint& at, const at::Tensor& v) {
    layers[at.layer].values.push_back(v[0].transpose(0, 1).to(at::kDouble));
  });
  hooks.read(nn::HookPlace::heads, [&](const nn::HookPoint& at, const at::Tensor& z) {
    layers[at.layer].output_norms.push_back(z[0].to(at::kDouble).norm(2, -1));
  });
  for (std::int64_t text = 0; text < texts.inputs.size(0); ++text)
    (*run.model)->forward(texts.inputs.narrow(0, text, 1), {.hooks = &hooks});
  std::erase_if(layers,
                [](const auto& each) { return each.second.values.empty() || each.second.output_norms.empty(); });
  if (layers.empty())
    throw UsageError(expected_got(run.name, "held-out text, and layers with values",
                                  run.config.task.name + ", " + (*run.model)->options().mechanism));
  return layers;
}

struct Measured {
  const char *name, *title, *meaning;
  double interpret::ValueStatistics::*member;
};
constexpr Measured measured[] = {
    {"value_bias", "‖E[v]‖ / rms", "‖E[v]‖ over the root mean square of v", &interpret::ValueStatistics::bias},
    {"effective_rank", "effective rank", "effective rank of the covariance of v",
     &interpret::ValueStatistics::effective_rank},
    {"largest_share", "largest share", "share of the variance along one direction, the largest",
     &interpret::ValueStatistics::largest_share},
    {"kurtosis", "kurtosis over normal", "Mardia's kurtosis of v over that of normal points",
     &interpret::ValueStatistics::kurtosis},
    {"kurtosis_z", "its z", "deviations of that kurtosis from normal points", &interpret::ValueStatistics::kurtosis_z}};
constexpr const char* of_layer = "_of_layer";

void add_layers(NumbersByRun& numbers, pages::TextTable& heads, std::size_t run, const StudiedRun& given,
                const std::map<std::int64_t, Layer>& layers) {
  std::map<std::string, std::vector<double>> all;
  for (const auto& [layer, parts] : layers) {
    const at::Tensor v = at::cat(parts.values, 1), norms = at::cat(parts.output_norms, 0).mean(0);
    std::map<std::string, std::vector<double>> of;
    const std::int64_t sharing = std::max<std::int64_t>(1, norms.size(0) / v.size(0));
    for (std::int64_t head = 0; head < v.size(0); ++head) {
      const interpret::ValueStatistics found = interpret::value_statistics(v[head]);
      std::vector<std::string> row{given.name, head_name(layer, head), std::to_string(v.size(1)),
                                   std::to_string(v.size(2)), std::to_string(found.directions)};
      for (const Measured& each : measured) {
        of[each.name].push_back(found.*each.member);
        row.push_back(study_number(found.*each.member));
      }
      const double norm = norms.narrow(0, head * sharing, sharing).mean().item<double>();
      of["output_norm"].push_back(norm);
      if (std::isfinite(found.kurtosis_z)) of["normal"].push_back(std::abs(found.kurtosis_z) < 1.96 ? 1 : 0);
      row.push_back(study_number(norm));
      heads.rows.push_back(std::move(row));
    }
    for (const auto& [name, each] : of) {
      numbers.set(run, name + of_layer, static_cast<double>(layer), mean_of_finite(each));
      all[name].insert(all[name].end(), each.begin(), each.end());
    }
  }
  for (const auto& [name, each] : all) numbers.set(run, name, mean_of_finite(each));
}

StudyResult run(const LabParameters& parameters, const std::vector<StudiedRun>& runs) {
  const std::vector<RunGroup> groups = groups_of(runs);
  NumbersByRun numbers(runs.size());
  pages::TextTable heads{"Every head", {"run", "values of", "tokens", "width", "directions"}, {}};
  std::vector<std::pair<std::string, std::string>> columns;
  for (const Measured& each : measured) {
    heads.columns.emplace_back(each.title);
    columns.emplace_back(each.title, each.name);
  }
  heads.columns.emplace_back("E‖o‖");
  columns.emplace_back("normal heads", "normal");
  columns.emplace_back("E‖o‖", "output_norm");
  for (std::size_t each = 0; each < runs.size(); ++each)
    add_layers(numbers, heads, each, runs[each], layers_of(runs[each], parameters.whole("tokens")));
  StudyResult result;
  result.answer =
      fmt::format("‖E[v]‖ is {} of the size of values, and Mardia’s kurtosis {} times that of normal points.",
                  numbers.told(groups, "value_bias"), numbers.told(groups, "kurtosis"));
  auto by_layer = columns;
  for (auto& [title, number] : by_layer) number += of_layer;
  result.tables = {{"models", table_of_groups("Mean over heads", groups, numbers, columns)},
                   {"layers", table_by_place("Mean over the heads of a layer", "layer", groups, numbers, by_layer)},
                   {"heads", heads, false}};
  for (const auto& [title, number] : {std::pair{"‖E[v]‖ over rms v", "value_bias_of_layer"},
                                      std::pair{"Mardia’s kurtosis over that of normal points", "kurtosis_of_layer"}}) {
    pages::LineChart chart{.title = title,
                           .x = {.title = "layer"},
                           .y = {.title = title},
                           .series = {},
                           .caption = "Mean over heads; bars: intervals of 95 % over runs."};
    for (const RunGroup& group : groups) chart.series.push_back(numbers.series(group, number));
    result.charts.push_back(std::move(chart));
  }
  result.numbers = std::move(numbers).all();
  result.remarks = {
      {"The test is Mardia's kurtosis (1970),",
       "E[((v − E v)ᵀ Σ⁻¹ (v − E v))²], r(r + 2) for normal points in r directions; z counts deviations of it, and a "
       "head is called normal below 1.96. Points far out make it large, an even cloud small."},
      {"z takes tokens as independent,",
       "which those of a text are not, and grows with their number. Compare the "
       "ratio; by z alone hardly any head is normal."},
      {"Over training:",
       "keep copies of a run's checkpoint, and give them as runs. ‖E[v]‖ and E‖o‖ are in the study "
       "heads, at every evaluation."}};
  return result;
}

std::vector<StudyNumber> declared() {
  std::vector<StudyNumber> all;
  const auto add = [&](const std::string& name, const std::string& meaning) {
    all.push_back({name, meaning + ", mean over heads"});
    all.push_back({name + of_layer, meaning + ", mean over the heads of a layer", "layer, from 0"});
  };
  for (const Measured& each : measured) add(each.name, each.meaning);
  add("normal", "1 where |z| is below 1.96, else 0");
  add("output_norm", "mean ‖o‖ of a head's output");
  return all;
}

}  // namespace values

StudyEntry values_study() {
  return {.name = "values",
          .title = "What values are",
          .question = "Are the values of heads normal with mean 0?",
          .parameters = {{{"tokens", {4096}, {64, 1e7}, "of held-out text, about"}}},
          .run = values::run,
          .numbers = values::declared(),
          .reads_held_out = true};
}

}  // namespace cogwheel::inspect
