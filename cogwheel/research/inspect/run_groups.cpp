#include "cogwheel/research/inspect/run_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::inspect {
namespace {

// The mechanism as it is called, and the layers around it.
std::string with_ends(const std::string& mechanism, const runs::ModelOptions& model) {
  const auto* const options = model.get_if<tasks::language::LanguageModelOptions>();
  if (options == nullptr || (options->first_softmax_layers == 0 && options->last_softmax_layers == 0)) return mechanism;
  return fmt::format("{}{}{} + {}", mechanism, between_softmax_layers, options->first_softmax_layers,
                     options->last_softmax_layers);
}

}  // namespace

std::vector<RunGroup> groups_of(const std::vector<StudiedRun>& runs) {
  std::vector<RunGroup> groups;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const runs::RunConfig& config = runs[run].config;
    const std::string& kind = runs[run].kind;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& group) {
      const StudiedRun& first = runs[group.runs.front()];
      if (!kind.empty() || !first.kind.empty()) return first.kind == kind;
      runs::RunConfig other = first.config;
      other.training.seed = config.training.seed;
      return !runs::first_difference(runs::to_json(other), runs::to_json(config));
    });
    if (same == groups.end() && !kind.empty()) {
      groups.push_back({.name = kind, .title = kind, .said = kind, .runs = {run}});
    } else if (same == groups.end()) {
      const std::string& mechanism = runs::common(config.model).mechanism;
      const std::string title = mechanism_title(mechanism);
      groups.push_back({.name = with_ends(mechanism, config.model),
                        .title = with_ends(title, config.model),
                        .said = with_ends(compare::title_in_sentence(title), config.model),
                        .runs = {run}});
    } else
      same->runs.push_back(run);
  }
  std::vector<std::string> names;
  for (const RunGroup& group : groups) names.push_back(group.name);
  for (RunGroup& group : groups)
    if (std::count(names.begin(), names.end(), group.name) > 1)
      group.name = group.title = group.said = runs[group.runs.front()].name;
  return groups;
}

compare::Estimate mean_of_group(const RunGroup& group, const std::vector<double>& values) {
  std::vector<double> own;
  for (const std::size_t run : group.runs) own.push_back(values.at(run));
  return compare::estimate_mean(own);
}

std::string estimate_text(const compare::Estimate& estimate) {
  if (!std::isfinite(estimate.mean)) return "";
  // Of numbers that are alike, an interval is rounding.
  return estimate.interval.value_or(0) > 1e-12 * std::abs(estimate.mean)
             ? study_number(estimate.mean) + " ± " + fmt::format("{:.2g}", *estimate.interval)
             : study_number(estimate.mean);
}

pages::ChartSeries group_series(const RunGroup& group, const std::vector<double>& x,
                                const std::vector<std::vector<double>>& values, bool bars) {
  pages::ChartSeries series{.name = group.title, .x = x, .y = {}};
  for (std::size_t at = 0; at < x.size(); ++at) {
    std::vector<double> of_runs(values.size(), std::numeric_limits<double>::quiet_NaN());
    for (const std::size_t run : group.runs) of_runs[run] = values.at(run).at(at);
    const compare::Estimate estimate = mean_of_group(group, of_runs);
    series.y.push_back(estimate.mean);
    if (bars && group.runs.size() > 1) series.error.push_back(estimate.interval.value_or(0));
  }
  return series;
}

}  // namespace cogwheel::inspect
