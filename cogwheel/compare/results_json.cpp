#include "cogwheel/compare/results_json.h"

#include <set>
#include <string>
#include <tuple>

#include "cogwheel/compare/presets.h"
#include "cogwheel/compare/results_check.h"
#include "cogwheel/compare/shared_configuration.h"
#include "cogwheel/compare/verdict.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/head_statistics_json.h"
#include "cogwheel/runs/measures_json.h"

namespace cogwheel {

// The keys of results.json, one line each, in order. docs/results-format.md explains them.

static constexpr auto fields(const CurvePoint&) {
  return std::tuple{
      field("step", &CurvePoint::step),
      field("train_loss", &CurvePoint::train_loss),
      inlined(&CurvePoint::measured),
      unless_empty("heads", &CurvePoint::heads),
  };
}

static constexpr auto fields(const RunResult&) {
  return std::tuple{
      field("mechanism", &RunResult::mechanism),
      field("seed", &RunResult::seed),
      field("learning_rate", &RunResult::learning_rate),
      field("parameters", &RunResult::parameters),
      field("tokens", &RunResult::tokens),
      field("seconds", &RunResult::seconds),
      field("evaluation_seconds", &RunResult::evaluation_seconds),
      field("tokens_per_second", &RunResult::tokens_per_second),
      field("peak_memory_bytes", &RunResult::peak_memory_bytes),
      field("status", &RunResult::status),
      unless_empty("message", &RunResult::message),
      inlined(&RunResult::measured),
      field("curve", &RunResult::curve),
      unless_empty("by_difficulty", &RunResult::by_difficulty),
  };
}

static constexpr auto fields(const MechanismPlan&) {
  return std::tuple{
      field("name", &MechanismPlan::name),
      field("title", &MechanismPlan::title),
      field("formula", &MechanismPlan::formula),
      field("definition", &MechanismPlan::definition),
      field("steps", &MechanismPlan::steps),
      field("learning_rate", &MechanismPlan::learning_rate),
      field("heads", &MechanismPlan::heads),
      field("feed_forward", &MechanismPlan::feed_forward),
      field("parameters", &MechanismPlan::parameters),
      field("parameters_unmatched", &MechanismPlan::parameters_unmatched),
  };
}

static constexpr auto fields(const TuningTrial&) {
  return std::tuple{
      field("mechanism", &TuningTrial::mechanism),
      field("learning_rate", &TuningTrial::learning_rate),
      field("steps", &TuningTrial::steps),
      field("validation_loss", &TuningTrial::value),
      unless_empty("message", &TuningTrial::message),
      field("chosen", &TuningTrial::chosen),
  };
}

static constexpr auto fields(const SummaryRow&) {
  return std::tuple{
      field("mechanism", &SummaryRow::mechanism),
      field("mean", &SummaryRow::mean),
      field("interval", &SummaryRow::interval),
      field("difference", &SummaryRow::difference),
      field("difference_interval", &SummaryRow::difference_interval),
      field("p_adjusted", &SummaryRow::p_adjusted),
      field("difference_confidence", &SummaryRow::difference_confidence),
      field("seeds", &SummaryRow::seeds),
      field("pairs", &SummaryRow::pairs),
      inlined(&SummaryRow::others),
  };
}

static constexpr auto fields(const Comparison::Versions&) {
  return std::tuple{
      field("cogwheel", &Comparison::Versions::cogwheel),
      field("torch", &Comparison::Versions::torch),
      field("compiler", &Comparison::Versions::compiler),
      field("chart.js", &Comparison::Versions::chart_js),
  };
}

static constexpr auto fields(const Comparison::Machine&) {
  return std::tuple{
      field("cpu", &Comparison::Machine::cpu),
      field("cores", &Comparison::Machine::cores),
      field("threads", &Comparison::Machine::threads),
      field("instructions", &Comparison::Machine::instructions),
      field("matrix_products", &Comparison::Machine::matrix_products),
      field("memory_bytes", &Comparison::Machine::memory_bytes),
      field("device", &Comparison::Machine::device),
      field("system", &Comparison::Machine::system),
  };
}

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

static constexpr auto fields(const Comparison::Settings&) {
  return std::tuple{
      field("preset", &Comparison::Settings::preset),
      field("form", &Comparison::Settings::form),
      field("steps", &Comparison::Settings::steps),
      field("tune", &Comparison::Settings::tune),
      field("wall_seconds", &Comparison::Settings::wall_seconds),
      field("seeds", &Comparison::Settings::seeds),
      unless_empty("set", &Comparison::Settings::set),
  };
}

static constexpr auto fields(const Comparison&) {
  return std::tuple{
      written("schema", [](const Comparison&) { return results_schema; }),
      field("command", &Comparison::command),
      field("created", &Comparison::created),
      written("verdict", verdict),
      field("interrupted", &Comparison::interrupted),
      field("versions", &Comparison::versions),
      field("machine", &Comparison::machine),
      field("task", &Comparison::task),
      field("data", &Comparison::data),
      field("settings", &Comparison::settings),
      field("configuration", &Comparison::configuration),
      field("match", &Comparison::match),
      field("baseline", &Comparison::baseline),
      field("mechanisms", &Comparison::mechanisms),
      field("tuning", &Comparison::tuning),
      field("runs", &Comparison::runs),
      written("summary", &Comparison::summary),
  };
}

// The keys that must be read before the others.
struct Schema {
  std::int64_t number = 0;
};
static constexpr auto fields(const Schema&) { return std::tuple{field("schema", &Schema::number)}; }

static Json write_json(RunStatus status) { return status_name(status); }
static void read_json(const Json& json, const char* key, RunStatus& status) {
  std::string name;
  read_json(json, key, name);
  status = find_status(name);
}

static Json write_json(const RunConfig& config) { return shared_record(config); }
static void read_json(const Json& json, const char* key, RunConfig& config) {
  expect_kind(key, json.is_object(), "an object", json);
  config = config_from_json(json, key);
}

static Json write_json(const StatisticsOfHeads& heads) { return heads_to_json(heads); }
static void read_json(const Json& json, const char* key, StatisticsOfHeads& heads) {
  try {
    heads = heads_from_json(json);
  } catch (const nlohmann::json::exception&) {
    expect_kind(key, false, "an array of layers for each statistic", json);
  }
}

namespace {

Json parse_object(std::string_view text, std::string_view what, std::string_view expected) {
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
    throw Error(expected_got(what, expected, kind_of(json)));
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
Json settings_of_configuration(const Comparison& comparison) {
  const ConstCommonOptions model = common(comparison.configuration.model);
  const TrainingOptions training = with_steps(comparison.configuration.training, comparison.settings.steps);
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

enum class MeasuredAt { run, curve_point, difficulty };

// Calls `change` with all measured values, and with what they are of.
template <class Change>
void for_all_measured(Comparison& comparison, Change change) {
  for (RunResult& run : comparison.runs) {
    change(run.measured, MeasuredAt::run);
    for (CurvePoint& point : run.curve) change(point.measured, MeasuredAt::curve_point);
    for (MeasuresByDifficulty& measures : run.by_difficulty)
      for (auto& point : measures.points) change(point.measured, MeasuredAt::difficulty);
  }
}

// Measures stand beside other keys.
void expect_names_of_their_own(const TaskDescription& task) {
  std::set<std::string> names;
  for (const Measure& measure : task.measures)
    if (is_field(measure.name, RunResult{}) || is_field(measure.name, CurvePoint{}) ||
        is_field(measure.name, SummaryRow{}) || is_field(measure.name, MeasuresByDifficulty::Point{}) ||
        !names.insert(measure.name).second)
      throw Error(expected_got("task.measures", "names that no other key has", measure.name));
}

Comparison comparison_from(const Json& json) {
  Comparison comparison;
  read_json(json, "results", comparison);
  expect_names_of_their_own(comparison.task);
  // Keys of a later version are not measures.
  for_all_measured(comparison, [&](MeasuredValues& values, MeasuredAt) {
    std::erase_if(values, [&](const MeasuredValue& each) { return !comparison.task.has(each.measure); });
  });
  expect_sound(comparison);
  // Computed from the runs, not read from the file.
  comparison.summary = summarize(comparison);
  return comparison;
}

// Invalid UTF-8 (in a file name, or bytes of a corpus) is replaced: it must not lose the results.
std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

Json results_as_json(const Comparison& given) {
  expect_names_of_their_own(given.task);
  Comparison comparison = given;
  for_all_measured(comparison, [&](MeasuredValues& values, MeasuredAt place) {
    if (place == MeasuredAt::difficulty) return;  // some measures only
    for (const Measure& measure : comparison.task.measures)
      if (find_value(values, measure.name) == nullptr && (place == MeasuredAt::run || !measure.at_end_only))
        values.push_back({measure.name, std::nan("")});
  });
  Json json = write_json(comparison);
  json["settings"].update(settings_of_configuration(comparison));
  return json;
}

std::string results_to_json(const Comparison& comparison) { return dump(results_as_json(comparison)); }

Comparison parse_results(std::string_view json, std::string_view what) {
  const Json object = parse_object(json, what, "the results of a comparison as JSON");
  Schema schema;
  naming(what, [&] { read_json(object, "results", schema); });
  if (schema.number != results_schema)
    throw Error(
        expected_got(what, "schema " + std::to_string(results_schema), "schema " + std::to_string(schema.number)));
  return naming(what, [&] { return comparison_from(object); });
}

}  // namespace cogwheel
