#include "cogwheel/compare/record/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/core/error.h"

namespace cogwheel::compare {
namespace {

constexpr std::array<std::string_view, 4> status_names{"done", "diverged", "interrupted", "failed"};

struct PairedDifferences {
  std::vector<double> values = {};
  double rounding = 0;
};

// The result minus that of the baseline, for each seed in which both finished.
PairedDifferences paired_differences(const Comparison& comparison, const std::string& mechanism) {
  PairedDifferences differences;
  for (const std::int64_t seed : comparison.settings.seeds) {
    const double* result = comparison.result(comparison.run(mechanism, seed));
    const double* base = comparison.result(comparison.run(comparison.base_of(mechanism), seed));
    if (result == nullptr || base == nullptr) continue;
    differences.values.push_back(*result - *base);
    for (const double value : {*result, *base})
      differences.rounding = std::max(differences.rounding, rounding_of(value));
  }
  return differences;
}

}  // namespace

std::string_view status_name(RunStatus status) { return status_names[static_cast<std::size_t>(status)]; }

RunStatus find_status(std::string_view name) {
  const auto place = std::find(status_names.begin(), status_names.end(), name);
  if (place == status_names.end())
    throw Error(expected_got("run status", "done, diverged, interrupted or failed", name));
  return static_cast<RunStatus>(place - status_names.begin());
}

bool SummaryRow::clear() const { return p_adjusted && *p_adjusted < significance_level && *difference != 0; }

std::string MechanismPlan::mechanism() const {
  constexpr std::string_view key = "model.mechanism=";
  const auto named =
      std::find_if(set.rbegin(), set.rend(), [&](const std::string& each) { return each.starts_with(key); });
  return named == set.rend() ? name : named->substr(key.size());
}

std::string width_suffix(std::int64_t width) { return " at " + std::to_string(width); }

bool MechanismPlan::is_mechanism() const {
  if (series.empty()) return set.empty();
  return set.size() == 2 && mechanism() == series;
}

std::string MechanismPlan::family_title() const {
  const std::string suffix = width_suffix(width);
  return series.empty() || !title.ends_with(suffix) ? title : title.substr(0, title.size() - suffix.size());
}

const std::string& Comparison::base_of(std::string_view mechanism) const {
  const MechanismPlan* const row = plan(mechanism);
  if (row == nullptr || row->series.empty()) return baseline;
  const std::string& family = baseline_family();
  const auto base = std::find_if(mechanisms.begin(), mechanisms.end(), [&](const MechanismPlan& each) {
    return each.series == family && each.width == row->width;
  });
  return base == mechanisms.end() ? baseline : base->name;
}

const std::string& Comparison::baseline_family() const {
  const MechanismPlan* const base = plan(baseline);
  return base == nullptr ? baseline : base->family();
}

const double* Comparison::result(const RunResult* run) const {
  return run != nullptr && run->status == RunStatus::done ? runs::find_value(run->measured, task.decisive().name)
                                                          : nullptr;
}

std::int64_t Comparison::tokens_per_step() const {
  return configuration.training.batch * (data.window > 0 ? data.window : runs::common(configuration.model).context);
}

bool Comparison::early_in_training() const {
  const MechanismPlan* base = plan(baseline);
  return task.counted == runs::TaskDescription{}.counted && base != nullptr &&
         base->steps * tokens_per_step() < base->parameters;
}

const MechanismPlan* Comparison::plan(std::string_view mechanism) const {
  const auto place = std::find_if(mechanisms.begin(), mechanisms.end(),
                                  [&](const MechanismPlan& candidate) { return candidate.name == mechanism; });
  return place == mechanisms.end() ? nullptr : &*place;
}

const SummaryRow* Comparison::row(std::string_view mechanism) const {
  const auto place = std::find_if(summary.begin(), summary.end(),
                                  [&](const SummaryRow& candidate) { return candidate.mechanism == mechanism; });
  return place == summary.end() ? nullptr : &*place;
}

const RunResult* Comparison::run(std::string_view mechanism, std::int64_t seed) const {
  const auto place = std::find_if(runs.begin(), runs.end(), [&](const RunResult& candidate) {
    return candidate.mechanism == mechanism && candidate.seed == seed;
  });
  return place == runs.end() ? nullptr : &*place;
}

std::vector<const RunResult*> Comparison::runs_of(std::string_view mechanism) const {
  std::vector<const RunResult*> found;
  for (const RunResult& candidate : runs)
    if (candidate.mechanism == mechanism) found.push_back(&candidate);
  return found;
}

std::int64_t Comparison::planned_runs() const {
  return static_cast<std::int64_t>(mechanisms.size() * settings.seeds.size());
}

std::int64_t Comparison::finished_runs() const {
  return std::count_if(runs.begin(), runs.end(), [this](const RunResult& run) { return result(&run) != nullptr; });
}

bool Comparison::is_to_do(std::string_view mechanism, std::int64_t seed) const {
  const RunResult* before = run(mechanism, seed);
  return before == nullptr || (result(before) == nullptr && before->status != RunStatus::diverged);
}

bool Comparison::is_tried(std::string_view mechanism, double rate) const {
  return std::ranges::any_of(
      tuning, [&](const TuningTrial& trial) { return trial.mechanism == mechanism && trial.learning_rate == rate; });
}

std::int64_t Comparison::runs_to_do() const {
  std::int64_t count = 0;
  for (const MechanismPlan& each : mechanisms)
    for (const std::int64_t seed : settings.seeds) count += is_to_do(each.name, seed);
  return count;
}

std::vector<SummaryRow> summarize(const Comparison& comparison) {
  std::vector<SummaryRow> rows;
  std::vector<PairedDifferences> differences;
  std::vector<double> p_values;
  std::vector<std::size_t> tested;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    SummaryRow row{.mechanism = plan.name};
    for (const runs::Measure& measure : comparison.task.measures) {
      std::vector<double> values;
      for (const RunResult* run : comparison.runs_of(plan.name))
        if (comparison.result(run) != nullptr)
          if (const double* value = runs::find_value(run->measured, measure.name)) values.push_back(*value);
      if (values.empty()) continue;
      const Estimate estimate = estimate_mean(values);
      if (measure != comparison.task.decisive()) {
        row.others.push_back({measure.name, estimate.mean});
        continue;
      }
      row.seeds = static_cast<std::int64_t>(values.size());
      row.mean = estimate.mean;
      row.interval = estimate.interval;
    }
    differences.push_back(comparison.is_base(plan.name) ? PairedDifferences{}
                                                        : paired_differences(comparison, plan.name));
    const auto& [values, rounding] = differences.back();
    row.pairs = static_cast<std::int64_t>(values.size());
    if (row.pairs > 0) row.difference = estimate_mean(values).mean;
    if (const auto p = paired_p_value(values, rounding)) {
      p_values.push_back(*p);
      tested.push_back(rows.size());
    }
    rows.push_back(row);
  }

  const std::vector<HolmStep> steps = holm(p_values);
  for (std::size_t index = 0; index < tested.size(); ++index) {
    SummaryRow& row = rows[tested[index]];
    row.p_adjusted = steps[index].p_adjusted;
    row.difference_confidence = steps[index].confidence;
    const auto& [values, rounding] = differences[tested[index]];
    row.difference_interval = estimate_mean(values, steps[index].confidence, rounding).interval;
  }
  return rows;
}

}  // namespace cogwheel::compare
