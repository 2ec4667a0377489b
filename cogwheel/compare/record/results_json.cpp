#include "cogwheel/compare/record/results_json.h"

#include <set>
#include <string>
#include <tuple>

#include "cogwheel/compare/record/results_check.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/compare/record/training_length.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/record/width_series.h"
#include "cogwheel/compare/statistics/seed_bootstrap.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/head_statistics_json.h"
#include "cogwheel/runs/measures_json.h"

namespace cogwheel::compare {

// The keys of results.json, one line each, in order. docs/results-format.md explains them.

static constexpr auto fields(const CurvePoint&) {
  return std::tuple{
      runs::field("step", &CurvePoint::step),
      runs::field("train_loss", &CurvePoint::train_loss),
      runs::inlined(&CurvePoint::measured),
      runs::unless_empty("heads", &CurvePoint::heads),
  };
}

static constexpr auto fields(const RunResult&) {
  return std::tuple{
      runs::field("mechanism", &RunResult::mechanism),
      runs::field("seed", &RunResult::seed),
      runs::field("learning_rate", &RunResult::learning_rate),
      runs::field("parameters", &RunResult::parameters),
      runs::field("tokens", &RunResult::tokens),
      runs::field("seconds", &RunResult::seconds),
      runs::field("evaluation_seconds", &RunResult::evaluation_seconds),
      runs::field("tokens_per_second", &RunResult::tokens_per_second),
      runs::field("peak_memory_bytes", &RunResult::peak_memory_bytes),
      runs::field("status", &RunResult::status),
      runs::unless_empty("message", &RunResult::message),
      runs::inlined(&RunResult::measured),
      runs::field("curve", &RunResult::curve),
      runs::unless_empty("by_difficulty", &RunResult::by_difficulty),
  };
}

static constexpr auto fields(const MechanismPlan&) {
  return std::tuple{
      runs::field("name", &MechanismPlan::name),
      runs::unless_empty("set", &MechanismPlan::set),
      runs::field("title", &MechanismPlan::title),
      runs::field("formula", &MechanismPlan::formula),
      runs::field("definition", &MechanismPlan::definition),
      runs::field("steps", &MechanismPlan::steps),
      runs::field("learning_rate", &MechanismPlan::learning_rate),
      runs::field("heads", &MechanismPlan::heads),
      runs::field("feed_forward", &MechanismPlan::feed_forward),
      runs::field("parameters", &MechanismPlan::parameters),
      runs::field("parameters_unmatched", &MechanismPlan::parameters_unmatched),
      runs::unless_empty("series", &MechanismPlan::series),
      runs::unless_empty("width", &MechanismPlan::width),
      runs::unless_empty("parameters_without_embeddings", &MechanismPlan::block_parameters),
  };
}

static constexpr auto fields(const TuningTrial&) {
  return std::tuple{
      runs::field("mechanism", &TuningTrial::mechanism),
      runs::field("learning_rate", &TuningTrial::learning_rate),
      runs::field("steps", &TuningTrial::steps),
      runs::field("validation_loss", &TuningTrial::value),
      runs::unless_empty("message", &TuningTrial::message),
      runs::field("chosen", &TuningTrial::chosen),
  };
}

static constexpr auto fields(const SummaryRow&) {
  return std::tuple{
      runs::field("mechanism", &SummaryRow::mechanism),
      runs::field("mean", &SummaryRow::mean),
      runs::field("interval", &SummaryRow::interval),
      runs::field("difference", &SummaryRow::difference),
      runs::field("difference_interval", &SummaryRow::difference_interval),
      runs::field("p_adjusted", &SummaryRow::p_adjusted),
      runs::field("difference_confidence", &SummaryRow::difference_confidence),
      runs::field("seeds", &SummaryRow::seeds),
      runs::field("pairs", &SummaryRow::pairs),
      runs::inlined(&SummaryRow::others),
  };
}

static constexpr auto fields(const Comparison::Versions&) {
  return std::tuple{
      runs::field("cogwheel", &Comparison::Versions::cogwheel),
      runs::field("torch", &Comparison::Versions::torch),
      runs::field("compiler", &Comparison::Versions::compiler),
      runs::field("chart.js", &Comparison::Versions::chart_js),
  };
}

static constexpr auto fields(const Comparison::Machine&) {
  return std::tuple{
      runs::field("cpu", &Comparison::Machine::cpu),
      runs::field("cores", &Comparison::Machine::cores),
      runs::field("threads", &Comparison::Machine::threads),
      runs::unless_empty("workers", &Comparison::Machine::workers),
      runs::field("instructions", &Comparison::Machine::instructions),
      runs::field("matrix_products", &Comparison::Machine::matrix_products),
      runs::field("memory_bytes", &Comparison::Machine::memory_bytes),
      runs::field("device", &Comparison::Machine::device),
      runs::unless_empty("device_name", &Comparison::Machine::device_name),
      runs::unless_empty("bfloat16_products", &Comparison::Machine::bfloat16_products),
      runs::field("system", &Comparison::Machine::system),
  };
}

}  // namespace cogwheel::compare

namespace cogwheel::runs {

static constexpr auto fields(const Measure&) {
  return std::tuple{
      field("name", &Measure::name),
      field("title", &Measure::title),
      field("label", &Measure::label),
      field("unit", &Measure::unit),
      field("lower_is_better", &Measure::lower_is_better),
      field("min", &Measure::min),
      field("at_end_only", &Measure::at_end_only),
  };
}

static constexpr auto fields(const TaskDescription&) {
  return std::tuple{
      field("name", &TaskDescription::name),
      field("summary", &TaskDescription::summary),
      field("item", &TaskDescription::item),
      field("data", &TaskDescription::data),
      field("does_better", &TaskDescription::does_better),
      field("do_better", &TaskDescription::do_better),
      field("counted", &TaskDescription::counted),
      field("sampling", &TaskDescription::sampling),
      field("measures", &TaskDescription::measures),
  };
}

static constexpr auto fields(const DataFacts&) {
  return std::tuple{
      field("name", &DataFacts::name),
      field("bytes", &DataFacts::bytes),
      field("sha256", &DataFacts::sha256),
      field("text", &DataFacts::text),
      unless_empty("corpus", &DataFacts::corpus),
      field("byte_limit", &DataFacts::byte_limit),
      field("tokenizer", &DataFacts::tokenizer),
      field("vocabulary", &DataFacts::vocabulary),
      field("train_tokens", &DataFacts::train_tokens),
      field("held_out_tokens", &DataFacts::held_out_tokens),
      field("evaluated_tokens", &DataFacts::evaluated_tokens),
      field("curve_tokens", &DataFacts::curve_tokens),
      field("window", &DataFacts::window),
  };
}

}  // namespace cogwheel::runs

namespace cogwheel::compare {

static constexpr auto fields(const Comparison::Settings&) {
  return std::tuple{
      runs::field("preset", &Comparison::Settings::preset),
      runs::field("form", &Comparison::Settings::form),
      runs::field("steps", &Comparison::Settings::steps),
      runs::field("tune", &Comparison::Settings::tune),
      runs::field("wall_seconds", &Comparison::Settings::wall_seconds),
      runs::field("seeds", &Comparison::Settings::seeds),
      runs::unless_empty("set", &Comparison::Settings::set),
      runs::unless_empty("widths", &Comparison::Settings::widths),
  };
}

static constexpr auto fields(const Comparison&) {
  return std::tuple{
      runs::written("schema", [](const Comparison&) { return results_schema; }),
      runs::field("command", &Comparison::command),
      runs::field("created", &Comparison::created),
      runs::written("verdict", verdict),
      runs::field("interrupted", &Comparison::interrupted),
      runs::field("versions", &Comparison::versions),
      runs::field("machine", &Comparison::machine),
      runs::field("task", &Comparison::task),
      runs::field("data", &Comparison::data),
      runs::field("settings", &Comparison::settings),
      runs::field("configuration", &Comparison::configuration),
      runs::field("match", &Comparison::match),
      runs::field("baseline", &Comparison::baseline),
      runs::field("mechanisms", &Comparison::mechanisms),
      runs::field("tuning", &Comparison::tuning),
      runs::field("runs", &Comparison::runs),
      runs::written("summary", &Comparison::summary),
  };
}

// The keys that must be read before the others.
struct Schema {
  std::int64_t number = 0;
};
static constexpr auto fields(const Schema&) { return std::tuple{runs::field("schema", &Schema::number)}; }

static runs::Json write_json(RunStatus status) { return status_name(status); }
static void read_json(const runs::Json& json, const char* key, RunStatus& status) {
  std::string name;
  runs::read_json(json, key, name);
  status = find_status(name);
}

}  // namespace cogwheel::compare

namespace cogwheel::runs {

static Json write_json(const RunConfig& config) { return compare::shared_record(config); }
static void read_json(const Json& json, const char* key, RunConfig& config) {
  expect_kind(key, json.is_object(), "an object", json);
  config = config_from_json(json, key);
}

}  // namespace cogwheel::runs

namespace cogwheel::nn {

static runs::Json write_json(const StatisticsOfHeads& heads) { return runs::heads_to_json(heads); }
static void read_json(const runs::Json& json, const char* key, StatisticsOfHeads& heads) {
  try {
    heads = runs::heads_from_json(json);
  } catch (const nlohmann::json::exception&) {
    runs::expect_kind(key, false, "an array of layers for each statistic", json);
  }
}

}  // namespace cogwheel::nn

namespace cogwheel::compare {
namespace {

runs::Json parse_object(std::string_view text, std::string_view what, std::string_view expected) {
  try {
    runs::Json json = runs::Json::parse(text);
    if (json.is_object()) return json;
    throw Error(expected_got(what, expected, runs::kind_of(json)));
  } catch (const nlohmann::json::exception& error) {
    throw Error(expected_got(what, expected, error.what()));
  }
}

// Calls `read`; an error names `what` before its key.
template <class Read>
auto naming(std::string_view what, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(std::string(what) + ": " + error.what());
  }
}

// What follows from the configuration and the steps, for readers of the file.
runs::Json settings_of_configuration(const Comparison& comparison) {
  const runs::ConstCommonOptions model = runs::common(comparison.configuration.model);
  const runs::TrainingOptions training = with_steps(comparison.configuration.training, comparison.settings.steps);
  return {{"precision", training.precision},
          {"dropout", model.dropout},
          {"layers", model.layers},
          {"heads", model.heads},
          {"width", model.width},
          {"context", model.context},
          {"batch", training.batch},
          {"learning_rate", training.learning_rate},
          {"final_learning_rate", training.final_learning_rate},
          {"warmup_steps", training.warm_up}};
}

runs::Json fitted_json(const FittedNumber& number) {
  return {{"value", number.value}, {"low", runs::write_json(number.low)}, {"high", runs::write_json(number.high)}};
}

runs::Json scaling_json(const Comparison& comparison) {
  runs::Json series = runs::Json::array();
  for (const WidthSeries& each : width_series(comparison)) {
    runs::Json points = runs::Json::array();
    for (const WidthPoint& point : each.points)
      points.push_back({{"mechanism", point.row},
                        {"width", point.width},
                        {"parameters_without_embeddings", point.size},
                        {"mean", runs::write_json(point.mean)},
                        {"learning_rate", point.learning_rate},
                        {"first_rate_costs", runs::write_json(point.first_rate_costs)}});
    runs::Json json{{"series", each.name}, {"seeds", each.seeds}, {"points", points}, {"law", nullptr}};
    if (each.law)
      json["law"] = {{"limit", fitted_json(each.law->limit)},
                     {"factor", fitted_json(each.law->factor)},
                     {"exponent", fitted_json(each.law->exponent)}};
    else
      json["why_no_law"] = each.why_no_law;
    if (each.gap)
      json["gap"] = {{"per_doubling", each.gap->per_doubling},
                     {"interval", runs::write_json(each.gap->interval)},
                     {"confidence", runs::write_json(each.gap->confidence)},
                     {"p_adjusted", runs::write_json(each.gap->p_adjusted)},
                     {"with_size", gap_name(each.gap->change)}};
    series.push_back(std::move(json));
  }
  return {{"bootstrap_draws", bootstrap_draws}, {"bootstrap_seed", bootstrap_seed}, {"series", std::move(series)}};
}

enum class MeasuredAt { run, curve_point, difficulty };

// Calls `change` with all measured values, and with what they are of.
template <class Change>
void for_all_measured(RunResult& run, Change change) {
  change(run.measured, MeasuredAt::run);
  for (CurvePoint& point : run.curve) change(point.measured, MeasuredAt::curve_point);
  for (runs::MeasuresByDifficulty& measures : run.by_difficulty)
    for (auto& point : measures.points) change(point.measured, MeasuredAt::difficulty);
}
template <class Change>
void for_all_measured(Comparison& comparison, Change change) {
  for (RunResult& run : comparison.runs) for_all_measured(run, change);
}

// Keys of a later version are not measures.
void keep_measures_of(const runs::TaskDescription& task, RunResult& run) {
  for_all_measured(run, [&](runs::MeasuredValues& values, MeasuredAt) {
    std::erase_if(values, [&](const runs::MeasuredValue& each) { return !task.has(each.measure); });
  });
}

// Measures stand beside other keys.
void expect_names_of_their_own(const runs::TaskDescription& task) {
  std::set<std::string> names;
  for (const runs::Measure& measure : task.measures)
    if (runs::is_field(measure.name, RunResult{}) || runs::is_field(measure.name, CurvePoint{}) ||
        runs::is_field(measure.name, SummaryRow{}) ||
        runs::is_field(measure.name, runs::MeasuresByDifficulty::Point{}) || !names.insert(measure.name).second)
      throw Error(expected_got("task.measures", "names that no other key has", measure.name));
}

Comparison comparison_from(const runs::Json& json) {
  Comparison comparison;
  runs::read_json(json, "results", comparison);
  expect_names_of_their_own(comparison.task);
  for (RunResult& run : comparison.runs) keep_measures_of(comparison.task, run);
  expect_sound(comparison);
  // Computed from the runs, not read from the file.
  comparison.summary = summarize(comparison);
  return comparison;
}

// Invalid UTF-8 (in a file name, or bytes of a corpus) is replaced: it must not lose the results.
std::string dump(const runs::Json& json) {
  return json.dump(1, ' ', false, runs::Json::error_handler_t::replace) + "\n";
}

}  // namespace

runs::Json results_as_json(const Comparison& given) {
  expect_names_of_their_own(given.task);
  Comparison comparison = given;
  for_all_measured(comparison, [&](runs::MeasuredValues& values, MeasuredAt place) {
    if (place == MeasuredAt::difficulty) return;  // some measures only
    for (const runs::Measure& measure : comparison.task.measures)
      if (runs::find_value(values, measure.name) == nullptr && (place == MeasuredAt::run || !measure.at_end_only))
        values.push_back({measure.name, std::nan("")});
  });
  runs::Json json = runs::write_json(comparison);
  json["settings"].update(settings_of_configuration(comparison));
  if (!comparison.settings.widths.empty()) json["scaling"] = scaling_json(comparison);
  return json;
}

std::string results_to_json(const Comparison& comparison) { return dump(results_as_json(comparison)); }

std::string run_to_json(const RunResult& run) { return dump(runs::write_json(run)); }

RunResult parse_run(std::string_view json, std::string_view what, const runs::TaskDescription& task) {
  const runs::Json object = parse_object(json, what, "a run as JSON");
  return naming(what, [&] {
    RunResult run;
    runs::read_json(object, "run", run);
    keep_measures_of(task, run);
    return run;
  });
}

std::string trial_to_json(const TuningTrial& trial) { return dump(runs::write_json(trial)); }

TuningTrial parse_trial(std::string_view json, std::string_view what) {
  const runs::Json object = parse_object(json, what, "a trial as JSON");
  return naming(what, [&] {
    TuningTrial trial;
    runs::read_json(object, "trial", trial);
    return trial;
  });
}

Comparison parse_results(std::string_view json, std::string_view what) {
  const runs::Json object = parse_object(json, what, "the results of a comparison as JSON");
  Schema schema;
  naming(what, [&] { runs::read_json(object, "results", schema); });
  if (schema.number != results_schema)
    throw Error(
        expected_got(what, "schema " + std::to_string(results_schema), "schema " + std::to_string(schema.number)));
  return naming(what, [&] { return comparison_from(object); });
}

}  // namespace cogwheel::compare
