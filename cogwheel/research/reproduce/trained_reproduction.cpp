#include "cogwheel/research/reproduce/trained_reproduction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/compare/plan/rows.h"
#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/page.h"
#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/runs/json_fields.h"

namespace cogwheel::reproduce {

namespace {

using Json = nlohmann::ordered_json;

compare::Estimate estimate_of(const Measurements& measured, const std::string& row, const NumberOfRow& number) {
  const std::vector<double> values = values_of(measured, row, "", number);
  if (values.empty()) return {.mean = std::nan(""), .interval = {}};
  return compare::estimate_mean(values);
}

std::string estimate_text(const compare::Estimate& estimate, int digits) {
  if (std::isnan(estimate.mean)) return "none";
  return pages::fixed(estimate.mean, digits) +
         (estimate.interval ? " ± " + pages::fixed(*estimate.interval, digits) : "");
}

// The numbers of the source, and below each row of them ours.
pages::TextTable table_beside(const SourceTable& source, const Measurements& measured) {
  pages::TextTable table{.title = source.caption, .columns = {"row", "whose"}, .rows = {}};
  table.columns.insert(table.columns.end(), source.columns.begin(), source.columns.end());
  for (const SourceTable::Row& row : source.rows) {
    std::vector<std::string> printed{row.name, "the source's"};
    for (const auto& value : row.values) printed.push_back(value ? pages::fixed(*value, source.digits) : "–");
    table.rows.push_back(std::move(printed));
    if (row.variant.empty()) continue;
    std::vector<std::string> ours{row.variant, "ours"};
    for (const NumberOfRow& number : source.numbers)
      ours.push_back(estimate_text(estimate_of(measured, row.variant, number), source.digits + 1));
    table.rows.push_back(std::move(ours));
  }
  return table;
}

pages::LineChart curves_of(const compare::Comparison& comparison) {
  const runs::Measure& measure = comparison.task.decisive();
  pages::LineChart chart{.title = pages::capitalised(measure.title) + " in training",
                         .x = {.title = "steps"},
                         .y = {.title = measure.unit.empty() ? measure.title : measure.title + ", " + measure.unit},
                         .series = {},
                         .caption = "Means of the seeds that finished; bars are 95 % intervals."};
  for (const compare::MechanismPlan& plan : comparison.mechanisms) {
    pages::ChartSeries line{.name = plan.title, .x = {}, .y = {}};
    const auto runs = comparison.runs_of(plan.name);
    const auto done =
        std::find_if(runs.begin(), runs.end(), [](const auto* run) { return run->status == compare::RunStatus::done; });
    if (done == runs.end()) continue;
    const double last = static_cast<double>((*done)->curve.back().step);
    for (const compare::CurvePoint& point : (*done)->curve) {
      // The value of the whole model at the end is of more items than a curve's.
      const double at = std::min(static_cast<double>(point.step) / last, 1 - 1e-9);
      const compare::Estimate estimate = estimate_of({comparison, {}}, plan.name, {.measure = measure.name, .at = at});
      line.x.push_back(static_cast<double>(point.step));
      line.y.push_back(estimate.mean);
      line.error.push_back(estimate.interval.value_or(0));
    }
    chart.series.push_back(std::move(line));
  }
  return chart;
}

pages::TextTable trained_table(const compare::Comparison& comparison) {
  pages::TextTable table{
      .title = "", .columns = {"row", "its own keys", "parameters", "steps", "learning rate", "seeds"}, .rows = {}};
  for (const compare::MechanismPlan& plan : comparison.mechanisms) {
    const std::vector<std::string> keys = plan.set.empty() ? compare::of_mechanism(plan.name).set : plan.set;
    const compare::SummaryRow* const row = comparison.row(plan.name);
    table.rows.push_back({plan.title, fmt::format("{}", fmt::join(keys, ", ")), pages::grouped(plan.parameters),
                          pages::grouped(plan.steps), number_text(plan.learning_rate),
                          std::to_string(row == nullptr ? 0 : row->seeds)});
  }
  return table;
}

pages::DocumentSection study_section(const StudyOfRows& made) {
  const inspect::StudyEntry& entry = *made.study.study;
  if (!made.problem.empty())
    return {.title = entry.title, .lead = fmt::format("The study {} could not be made: {}", entry.name, made.problem)};
  const inspect::StudyResult& result = made.study.result;
  pages::DocumentSection section{.title = entry.title,
                                 .lead = fmt::format("{} The whole study is {}/{}/{} beside this page.", result.answer,
                                                     studies_folder, entry.name, inspect::study_page_file)};
  for (const pages::LineChart& chart : result.charts) section.figures.push_back(pages::line_chart_figure(chart));
  for (const std::string& note : result.notes) section.remarks.emplace_back("Less than was asked for:", note);
  return section;
}

Json study_values_json(const StudyOfRows& made) {
  Json numbers = Json::array();
  for (const inspect::NumbersOfRuns& each : made.study.result.numbers) {
    Json values = Json::array();
    for (std::size_t run = 0; run < made.runs.size(); ++run)
      values.push_back({{"row", made.runs[run].row}, {"seed", made.runs[run].seed}, {"value", each.values.at(run)}});
    numbers.push_back({{"name", each.name}, {"place", runs::write_json(each.place)}, {"values", std::move(values)}});
  }
  return {{"name", made.study.study->name},
          {"answer", made.study.result.answer},
          {"problem", made.problem},
          {"seconds", made.seconds},
          {"numbers", std::move(numbers)}};
}

Json claim_json(const DecidedClaim& decided) {
  const ClaimResult& result = decided.result;
  Json json{{"id", decided.claim.id},
            {"says", decided.claim.says},
            {"row", decided.claim.row},
            {"against", decided.claim.against},
            {"expected", expected_text(decided.claim)},
            {"printed", runs::write_json(decided.claim.printed)},
            {"ours", decided.claim.ours},
            {"primary", decided.claim.primary},
            {"verdict", decided.claim.primary ? Json(compare::verdict_name(result.verdict)) : Json(nullptr)},
            {"mean", result.mean},
            {"interval", runs::write_json(result.interval)},
            {"confidence", runs::write_json(result.confidence)},
            {"p_adjusted", runs::write_json(result.p_adjusted)},
            {"values", decided.values}};
  if (result.later_mean)
    json["later_mean"] = *result.later_mean, json["later_interval"] = runs::write_json(result.later_interval);
  if (decided.claim.primary && result.verdict == Verdict::cannot_tell)
    json["visible"] = runs::write_json(result.visible), json["seeds_needed"] = runs::write_json(result.seeds_needed);
  return json;
}

// Of the keys that `cogwheel compare` has an option for, those that an experiment may set. Whether it is one.
bool take_option(const std::string& assignment, compare::CompareRequest& request) {
  const std::string key = compare::key_of(assignment), what = "--set " + key;
  std::string value = assignment.substr(std::min(assignment.size(), key.size() + 1));
  if (value.size() > 1 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
  if (key == "model.dropout")
    request.dropout = parse_number(what, value, runs::dropout_range);
  else if (key == "training.learning_rate")
    request.learning_rate = parse_number(what, value, runs::learning_rate_range);
  else if (key == "training.device")
    request.device = value;
  else if (key == "training.precision")
    request.precision = value;
  else
    return false;
  return true;
}

}  // namespace

void set_studies(TrainedExperiment& experiment, const ReproductionRequest& request) {
  set_studies(experiment, experiment.scale(request.scale).set, experiment.name + ": " + request.scale + ": set");
  set_studies(experiment, request.set, "--set");
}

compare::CompareRequest comparison_request(const TrainedExperiment& experiment, const ReproductionRequest& request) {
  const TrainedExperiment::Comparison& given = experiment.comparison;
  const Scale& scale = experiment.scale(request.scale);
  compare::CompareRequest made;
  made.task = given.task;
  made.text = request.text;
  made.corpus = request.corpus;
  made.preset = given.preset;
  made.form = given.form;
  made.position = given.position;
  if (!given.match.empty()) made.match = given.match;
  if (!given.tokenizer.empty() && request.corpus.empty()) made.tokenizer = given.tokenizer;
  made.baseline = given.baseline;
  made.learning_rate = scale.learning_rate;
  made.bytes = request.corpus.empty() ? scale.bytes : 0;
  made.tune = given.tune;
  made.widths = scale.widths.empty() ? given.widths : scale.widths;
  made.seeds = request.seeds > 0 ? request.seeds : scale.seeds;
  made.steps = request.steps > 0 ? request.steps : request.minutes > 0 ? 0 : scale.steps;
  made.seconds = made.steps > 0 ? 0 : 60 * request.minutes;
  for (const auto* keys : {&given.set, &scale.set, &request.set})
    for (const std::string& assignment : *keys)
      if (!sets_study(experiment, assignment) && !take_option(assignment, made)) made.set.push_back(assignment);
  made.variants = experiment.variants;
  return made;
}

void TrainedReproduction::expect_studies() const {
  for (const StudyOfRows& made : studies)
    if (!made.problem.empty())
      throw Error(expected_got(made.study.study->name, "an answer of every study", made.problem));
}

pages::TextTable claims_table(const std::vector<DecidedClaim>& claims) {
  pages::TextTable table{
      .title = "", .columns = {"claim", "expected", "the source's number", "found", "verdict"}, .rows = {}};
  for (const DecidedClaim& each : claims)
    table.rows.push_back({each.claim.says, expected_text(each.claim),
                          each.claim.printed ? number_text(*each.claim.printed) : "–", found_text(each),
                          verdict_text(each)});
  return table;
}

std::string trained_page(const TrainedReproduction& reproduction) {
  const TrainedExperiment& experiment = reproduction.experiment;
  const compare::Comparison& comparison = reproduction.comparison;
  const bool desk = reproduction.request.scale == "desk";
  const std::int64_t finished = comparison.finished_runs();
  pages::Document document{
      .title = experiment.title,
      .kind = "Cogwheel experiment",
      .created = reproduction.created,
      .verdict = claims_sentence(reproduction.claims),
      .facts = {{"Experiment", experiment.name, fmt::format("answers {}", fmt::join(experiment.source.items, ", "))},
                {"Source", experiment.source.document + ", " + experiment.source.place, experiment.source.cost},
                {"Scale", reproduction.request.scale, experiment.scale(reproduction.request.scale).note},
                {"Data", comparison.data.name, comparison.data.sha256},
                {"Runs", fmt::format("{} of {}", finished, comparison.planned_runs()),
                 reproduction.taken > 0 ? fmt::format("{} of them were there already", reproduction.taken) : ""},
                {"Took", duration_text(reproduction.seconds), comparison.machine.cpu}},
      .command = reproduction.command,
      .written_by = "cogwheel reproduce",
      .version = reproduction.version};
  pages::DocumentSection claims{.title = "What the source claims, and what was found",
                                .lead = experiment.question,
                                .tables = {claims_table(reproduction.claims)}};
  claims.remarks.emplace_back(
      "Verdicts:",
      "a claim agrees or is contradicted where the paired differences of the seeds show it, with Holm’s correction for "
      "all "
      "claims of this page at 5 %; \"within\" is decided by two one-sided tests. Where these seeds cannot tell, the "
      "table names the difference that as many would have shown in four of five repetitions, and how many seeds the "
      "difference that was found would take. Claims without a test are shown.");
  if (desk)
    claims.remarks.emplace_back("At desk scale",
                                "orders, signs of gaps and crossings can be compared with the source, absolute numbers "
                                "cannot: models, data and "
                                "training are smaller.");
  document.sections.push_back(std::move(claims));
  if (!experiment.source.tables.empty()) {
    pages::DocumentSection tables{.title = "The source's numbers beside ours",
                                  .lead = "Ours are means with 95 % intervals."};
    for (const SourceTable& table : experiment.source.tables)
      tables.tables.push_back(table_beside(table, reproduction.measured()));
    document.sections.push_back(std::move(tables));
  }
  if (finished > 0)
    document.sections.push_back({.title = "Curves", .figures = {pages::line_chart_figure(curves_of(comparison))}});
  if (finished > 0 && !comparison.settings.widths.empty())
    document.sections.push_back(compare::widths_section(comparison));
  for (const StudyOfRows& made : reproduction.studies) document.sections.push_back(study_section(made));
  document.sections.push_back(
      {.title = "What was trained",
       .lead = fmt::format("{} The whole comparison, with every run, is {}/report.html beside this page.",
                           compare::verdict(comparison), comparison_folder),
       .tables = {trained_table(comparison)}});
  if (!experiment.traps.empty()) {
    pages::DocumentSection traps{.title = "What to mind"};
    for (const std::string& trap : experiment.traps) traps.remarks.emplace_back("", trap);
    document.sections.push_back(std::move(traps));
  }
  return pages::document_page(document);
}

std::string trained_json(const TrainedReproduction& reproduction) {
  const TrainedExperiment& experiment = reproduction.experiment;
  const compare::Comparison& comparison = reproduction.comparison;
  Json json{{"schema", 3},
            {"experiment", experiment.name},
            {"question", experiment.question},
            {"source",
             {{"document", experiment.source.document},
              {"place", experiment.source.place},
              {"items", experiment.source.items}}},
            {"command", reproduction.command},
            {"version", reproduction.version},
            {"created", reproduction.created},
            {"scale", reproduction.request.scale},
            {"steps", comparison.settings.steps},
            {"seeds", comparison.settings.seeds},
            {"data", {{"name", comparison.data.name}, {"sha256", comparison.data.sha256}}},
            {"seconds", reproduction.seconds},
            {"answer", claims_sentence(reproduction.claims)},
            {"claims", Json::array()},
            {"tables", Json::array()},
            {"studies", Json::array()}};
  for (const StudyOfRows& made : reproduction.studies) json["studies"].push_back(study_values_json(made));
  for (const DecidedClaim& each : reproduction.claims) json["claims"].push_back(claim_json(each));
  for (const SourceTable& table : experiment.source.tables) {
    Json rows = Json::array();
    for (const SourceTable::Row& row : table.rows) {
      Json printed = Json::array(), ours = Json::array();
      for (const auto& value : row.values) printed.push_back(runs::write_json(value));
      if (!row.variant.empty())
        for (const NumberOfRow& number : table.numbers) {
          const compare::Estimate estimate = estimate_of(reproduction.measured(), row.variant, number);
          ours.push_back({{"mean", estimate.mean}, {"interval", runs::write_json(estimate.interval)}});
        }
      rows.push_back({{"name", row.name}, {"variant", row.variant}, {"printed", printed}, {"ours", ours}});
    }
    json["tables"].push_back({{"caption", table.caption}, {"columns", table.columns}, {"rows", rows}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel::reproduce
