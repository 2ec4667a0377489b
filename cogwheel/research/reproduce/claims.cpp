#include "cogwheel/research/reproduce/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::reproduce {
namespace {

using Relation = TestedClaim::Relation;

constexpr const char* train_loss = "train_loss";

const double* value_at(const compare::CurvePoint& point, const std::string& measure) {
  if (measure == train_loss) return point.train_loss ? &*point.train_loss : nullptr;
  return runs::find_value(point.measured, measure);
}

std::string signed_text(double value) {
  return std::isnan(value) ? "none" : pages::signed_fixed(value, std::abs(value) < 0.1 ? 4 : 3);
}

std::string with_interval(double mean, const std::optional<double>& interval) {
  return signed_text(mean) + (interval ? " ± " + pages::fixed(*interval, std::abs(*interval) < 0.1 ? 4 : 3) : "");
}

std::optional<double> finite(const double* value) {
  return value == nullptr || !std::isfinite(*value) ? std::nullopt : std::optional(*value);
}

std::optional<double> value_at_difficulty(const compare::RunResult& run, const std::string& measure,
                                          double difficulty) {
  for (const runs::MeasuresByDifficulty& each : run.by_difficulty)
    for (const auto& point : each.points)
      if (static_cast<double>(point.difficulty) == difficulty)
        if (const double* const value = runs::find_value(point.measured, measure)) return finite(value);
  return std::nullopt;
}

std::optional<double> number_of_study(const std::vector<StudyOfRows>& studies, const std::string& row,
                                      std::int64_t seed, const NumberOfRow& number) {
  const std::size_t dot = number.measure.find('.');
  for (const StudyOfRows& made : studies) {
    if (made.study.study->name != number.measure.substr(0, dot)) continue;
    for (const inspect::NumbersOfRuns& found : made.study.result.numbers)
      if (found.name == number.measure.substr(dot + 1) && found.place == number.place)
        for (std::size_t run = 0; run < made.runs.size(); ++run)
          if (made.runs[run].row == row && made.runs[run].seed == seed) return finite(&found.values.at(run));
  }
  return std::nullopt;
}

// Throws UsageError, which begins with `what`, for a measure that the task does not have.
std::string measure_of(const compare::Comparison& comparison, const NumberOfRow& number, const std::string& what) {
  const std::string measure = number.measure.empty() ? comparison.task.decisive().name : number.measure;
  if (measure == train_loss || comparison.task.has(measure)) return measure;
  std::vector<std::string> names{train_loss};
  for (const runs::Measure& each : comparison.task.measures) names.push_back(each.name);
  throw UsageError(expected_got(what, expected_names(measure, names), measure));
}

// "accuracy@8", "accuracy@16": what a model of the row, which need not be trained, gives by difficulty.
std::vector<std::string> numbers_by_difficulty(const compare::Comparison& comparison, const compare::RowTasks& tasks,
                                               const compare::MechanismPlan& plan) {
  const runs::Task& task = *tasks.of(plan.name);
  const auto model =
      runs::make_model(task.completed(compare::run_config(comparison, plan, comparison.settings.seeds.front())).model);
  task.initialize(*model, 1);
  std::vector<std::string> names;
  for (const runs::MeasuresByDifficulty& each : task.inspect(*model, 1, nullptr).by_difficulty)
    for (const auto& point : each.points)
      for (const runs::MeasuredValue& value : point.measured)
        names.push_back(fmt::format("{}@{}", value.measure, point.difficulty));
  return names;
}

bool is_tested(const Claim& claim) { return claim.primary && !claim.every; }

// How many runs do not have what a claim says of every one.
std::int64_t runs_against(const DecidedClaim& decided) {
  const Claim& claim = decided.claim;
  return std::ranges::count_if(decided.values, [&](double value) {
    return claim.relation == Relation::below   ? !(value < claim.bound)
           : claim.relation == Relation::above ? !(value > claim.bound)
                                               : !(std::abs(value) <= claim.bound);
  });
}

}  // namespace

void expect_numbers(const TrainedExperiment& experiment, const compare::Comparison& comparison,
                    const compare::RowTasks& tasks) {
  std::map<std::string, std::vector<std::string>> by_difficulty;  // of the rows asked
  const auto expect = [&](const NumberOfRow& number, const std::string& row, const std::string& what) {
    const compare::MechanismPlan* const plan = comparison.plan(row);
    if (number.of_study() || plan == nullptr) return;  // checked where it is read; of a width of another scale
    const std::string measure = measure_of(comparison, number, what);
    if (!number.place) return;
    const std::string name = measure + "@" + number_text(*number.place);
    if (!by_difficulty.contains(row)) by_difficulty[row] = numbers_by_difficulty(comparison, tasks, *plan);
    const std::vector<std::string>& names = by_difficulty[row];
    if (std::ranges::find(names, name) == names.end())
      throw UsageError(expected_got(what, names.empty() ? "a measure without @" : expected_names(name, names), name));
  };
  for (const Claim& claim : experiment.claims)
    for (const std::string& row : {claim.row, claim.against})
      if (!row.empty()) expect(claim.number, row, experiment.name + ": claim " + claim.id + ": measure");
  for (const SourceTable& table : experiment.source.tables)
    for (const SourceTable::Row& row : table.rows)
      if (!row.variant.empty())
        for (const NumberOfRow& number : table.numbers)
          expect(number, row.variant, experiment.name + ": source: table: measures");
}

std::optional<double> number_of_run(const compare::Comparison& comparison, const compare::RunResult* run,
                                    const NumberOfRow& number) {
  const std::string measure = measure_of(comparison, number, "measure");
  if (run == nullptr || run->status != compare::RunStatus::done) return std::nullopt;
  if (number.place) return value_at_difficulty(*run, measure, *number.place);
  if (number.at >= 1 && measure != train_loss) {
    const double* value = runs::find_value(run->measured, measure);
    return finite(value);
  }
  if (run->curve.empty()) return std::nullopt;
  const double step = number.at * static_cast<double>(run->curve.back().step);
  const auto after = std::find_if(run->curve.begin(), run->curve.end(), [&](const compare::CurvePoint& point) {
    return static_cast<double>(point.step) >= step * (1 - 1e-12);
  });
  const double* const late = value_at(*after, measure);
  if (late == nullptr) return std::nullopt;
  const double distance = static_cast<double>(after->step) - step;
  if (after == run->curve.begin() || distance < 1e-9 * step) return finite(late);
  const compare::CurvePoint& before = *std::prev(after);
  const double* const early = value_at(before, measure);
  if (early == nullptr) return std::nullopt;
  const double between = *late + (*early - *late) * distance / static_cast<double>(after->step - before.step);
  return finite(&between);
}

std::vector<double> values_of(const Measurements& measured, const std::string& row, const std::string& against,
                              const NumberOfRow& number) {
  const compare::Comparison& comparison = measured.comparison;
  const auto value_of = [&](const std::string& of, std::int64_t seed) {
    return number.of_study() ? number_of_study(measured.studies, of, seed, number)
                             : number_of_run(comparison, comparison.run(of, seed), number);
  };
  std::vector<double> values;
  for (const std::int64_t seed : comparison.settings.seeds) {
    const auto value = value_of(row, seed), base = against.empty() ? std::optional(0.0) : value_of(against, seed);
    if (value && base) values.push_back(*value - *base);
  }
  return values;
}

std::vector<DecidedClaim> decide(const std::vector<Claim>& claims, const Measurements& measured) {
  std::vector<DecidedClaim> decided;
  std::vector<TestedClaim> tested;
  for (const Claim& claim : claims) {
    DecidedClaim each{
        .claim = claim, .values = values_of(measured, claim.row, claim.against, claim.number), .result = {}};
    TestedClaim test{.relation = claim.relation, .bound = claim.bound, .rises = claim.rises, .values = each.values};
    if (claim.relation == Relation::crosses) test.later = values_of(measured, claim.row, claim.against, claim.later);
    // Differences are of numbers, whose rounding is larger than theirs.
    for (const double value : values_of(measured, claim.row, "", claim.number))
      test.rounding = std::max(test.rounding, compare::rounding_of(value));
    if (is_tested(claim)) {
      tested.push_back(std::move(test));
    } else {
      const ClaimResult untested = compare::decide_claims(std::vector{test})[0];
      each.result.mean = untested.mean, each.result.later_mean = untested.later_mean;
    }
    if (claim.every && !each.values.empty())
      each.result.verdict = runs_against(each) == 0 ? Verdict::agrees : Verdict::contradicts;
    decided.push_back(std::move(each));
  }
  const std::vector<ClaimResult> results = compare::decide_claims(tested);
  std::size_t next = 0;
  for (DecidedClaim& each : decided)
    if (is_tested(each.claim)) each.result = results[next++];
  return decided;
}

std::string found_text(const DecidedClaim& decided) {
  const ClaimResult& result = decided.result;
  std::string text = with_interval(result.mean, result.interval);
  if (result.later_mean) text += ", later " + with_interval(*result.later_mean, result.later_interval);
  return text;
}

std::string expected_text(const Claim& claim) {
  const std::string runs = claim.every ? " in every run" : "";
  switch (claim.relation) {
    case Relation::below:
      return "below " + number_text(claim.bound) + runs;
    case Relation::above:
      return "above " + number_text(claim.bound) + runs;
    case Relation::equal:
      return "within " + number_text(claim.bound) + " of 0" + runs;
    case Relation::crosses:
      return claim.rises ? "below 0, later above" : "above 0, later below";
  }
  return "";
}

std::string verdict_text(const DecidedClaim& decided) {
  if (!decided.claim.primary) return "shown";
  const ClaimResult& result = decided.result;
  std::string text(compare::verdict_name(result.verdict));
  if (decided.claim.every)
    return result.verdict != Verdict::contradicts ? text + (decided.values.empty() ? ": no run" : "")
                                                  : fmt::format("{} (not so in {} of {})", text, runs_against(decided),
                                                                pages::counted(std::ssize(decided.values), "run"));
  if (result.p_adjusted) text += fmt::format(" (p {:.2g})", *result.p_adjusted);
  if (result.verdict != Verdict::cannot_tell) return text;
  if (!result.visible) return text + (decided.values.size() < 2 ? ": too few seeds" : ": the same in every seed");
  return text + ": " + compare::visible_text(decided.claim.relation, std::ssize(decided.values), result, "seeds");
}

std::string claims_sentence(const std::vector<DecidedClaim>& decided) {
  std::int64_t agree = 0, contradict = 0, open = 0;
  for (const DecidedClaim& each : decided) {
    if (!each.claim.primary) continue;
    agree += each.result.verdict == Verdict::agrees;
    contradict += each.result.verdict == Verdict::contradicts;
    open += each.result.verdict == Verdict::cannot_tell;
  }
  if (agree + contradict + open == 0) return "Nothing is claimed of these runs.";
  std::string text;
  const auto add = [&](std::int64_t count, std::string_view one, std::string_view many) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, count == 1 ? one : many);
  };
  add(contradict, "is contradicted", "are contradicted");
  add(agree, "agrees", "agree");
  add(open, "cannot be told", "cannot be told");
  return fmt::format("Of {}: {}.", pages::counted(agree + contradict + open, "claim"), text);
}

}  // namespace cogwheel::reproduce
