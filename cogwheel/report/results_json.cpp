#include "cogwheel/report/results_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/evaluate/verdict.h"
#include "cogwheel/report/results_check.h"
#include "cogwheel/train/head_statistics_json.h"

namespace cogwheel {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}
Json number(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

// nlohmann would take 1.5 or true for 1.
std::int64_t whole_at(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()))
    throw Error(expected_got(key, "a whole number", value.dump()));
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> whole_numbers_at(const Json& object, const char* key) {
  std::vector<std::int64_t> numbers;
  if (!object.at(key).is_array()) throw Error(expected_got(key, "an array", object.at(key).dump()));
  for (const Json& value : object.at(key)) numbers.push_back(whole_at(Json{{key, value}}, key));
  return numbers;
}

template <class Value>
std::optional<Value> optional_at(const Json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return std::nullopt;
  if constexpr (std::is_same_v<Value, std::int64_t>) return whole_at(object, key);
  return object.at(key).get<Value>();
}

Json to_json(const RunResult& run) {
  Json json{{"mechanism", run.mechanism},
            {"seed", run.seed},
            {"learning_rate", run.learning_rate},
            {"parameters", run.parameters},
            {"tokens", run.tokens},
            {"seconds", run.seconds},
            {"evaluation_seconds", run.evaluation_seconds},
            {"tokens_per_second", run.tokens_per_second},
            {"peak_memory_bytes", number(run.peak_memory_bytes)},
            {"status", status_name(run.status)}};
  if (!run.message.empty()) json["message"] = run.message;
  json["held_out_loss"] = number(run.held_out_loss);
  json["curve"] = Json::array();
  for (const CurvePoint& point : run.curve) {
    json["curve"].push_back({{"step", point.step},
                             {"train_loss", number(point.train_loss)},
                             {"held_out_loss", number(point.held_out_loss)}});
    if (!point.heads.empty()) json["curve"].back()["heads"] = heads_to_json(point.heads);
  }
  return json;
}

RunResult run_from(const Json& json) {
  RunResult run{.mechanism = json.at("mechanism"),
                .seed = whole_at(json, "seed"),
                .learning_rate = json.at("learning_rate"),
                .parameters = whole_at(json, "parameters"),
                .tokens = whole_at(json, "tokens"),
                .seconds = json.at("seconds"),
                .evaluation_seconds = json.value("evaluation_seconds", 0.0),
                .tokens_per_second = json.at("tokens_per_second"),
                .peak_memory_bytes = optional_at<std::int64_t>(json, "peak_memory_bytes"),
                .status = find_status(json.at("status").get<std::string>()),
                .message = json.value("message", ""),
                .held_out_loss = optional_at<double>(json, "held_out_loss")};
  for (const Json& point : json.at("curve"))
    run.curve.push_back({.step = whole_at(point, "step"),
                         .train_loss = optional_at<double>(point, "train_loss"),
                         .held_out_loss = optional_at<double>(point, "held_out_loss"),
                         .heads = point.contains("heads") ? heads_from_json(point.at("heads")) : StatisticsOfHeads()});
  return run;
}

Json to_json(const SummaryRow& row) {
  return {{"mechanism", row.mechanism},
          {"mean", number(row.mean)},
          {"interval", number(row.interval)},
          {"difference", number(row.difference)},
          {"difference_interval", number(row.difference_interval)},
          {"p_adjusted", number(row.p_adjusted)},
          {"difference_confidence", number(row.difference_confidence)},
          {"seeds", row.seeds},
          {"pairs", row.pairs}};
}

Json to_json(const MechanismPlan& plan) {
  return {{"name", plan.name},
          {"title", plan.title},
          {"formula", plan.formula},
          {"definition", plan.definition},
          {"steps", plan.steps},
          {"learning_rate", plan.learning_rate},
          {"heads", plan.heads},
          {"feed_forward", plan.feed_forward},
          {"parameters", plan.parameters},
          {"parameters_unmatched", plan.parameters_unmatched}};
}

MechanismPlan plan_from(const Json& json) {
  return {.name = json.at("name"),
          .title = json.at("title"),
          .formula = json.at("formula"),
          .definition = json.value("definition", ""),
          .steps = whole_at(json, "steps"),
          .learning_rate = json.at("learning_rate"),
          .heads = whole_at(json, "heads"),
          .feed_forward = whole_at(json, "feed_forward"),
          .parameters = whole_at(json, "parameters"),
          .parameters_unmatched = whole_at(json, "parameters_unmatched")};
}

Json to_json(const TuningTrial& trial) {
  return {{"mechanism", trial.mechanism},
          {"learning_rate", trial.learning_rate},
          {"steps", trial.steps},
          {"validation_loss", number(trial.validation_loss)},
          {"chosen", trial.chosen}};
}

template <class Items>
Json list_of(const Items& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

Comparison comparison_from(const Json& json) {
  Comparison comparison;
  comparison.command = json.at("command");
  comparison.created = json.at("created");
  comparison.interrupted = json.at("interrupted");
  const Json &versions = json.at("versions"), &machine = json.at("machine"), &data = json.at("data"),
             &settings = json.at("settings");
  comparison.versions = {.cogwheel = versions.at("cogwheel"),
                         .torch = versions.at("torch"),
                         .compiler = versions.at("compiler"),
                         .chart_js = versions.at("chart.js")};
  comparison.machine = {.cpu = machine.at("cpu"),
                        .instructions = machine.at("instructions"),
                        .matrix_products = machine.value("matrix_products", ""),
                        .system = machine.at("system"),
                        .cores = whole_at(machine, "cores"),
                        .threads = whole_at(machine, "threads"),
                        .memory_bytes = whole_at(machine, "memory_bytes")};
  comparison.data = {.name = data.at("name"),
                     .tokenizer = data.at("tokenizer"),
                     .sha256 = data.at("sha256"),
                     .text = data.at("text"),
                     .byte_limit = whole_at(data, "byte_limit"),
                     .bytes = whole_at(data, "bytes"),
                     .vocabulary = whole_at(data, "vocabulary"),
                     .train_tokens = whole_at(data, "train_tokens"),
                     .held_out_tokens = whole_at(data, "held_out_tokens"),
                     .evaluated_tokens = whole_at(data, "evaluated_tokens"),
                     .curve_tokens = 0};
  // Where it is missing curves are made of all that is evaluated.
  comparison.data.curve_tokens =
      data.contains("curve_tokens") ? whole_at(data, "curve_tokens") : comparison.data.evaluated_tokens;
  const Comparison::Settings defaults;
  comparison.settings = {.preset = settings.at("preset"),
                         .form = settings.value("form", defaults.form),
                         .precision = settings.value("precision", defaults.precision),
                         .dropout = settings.value("dropout", defaults.dropout),
                         .layers = whole_at(settings, "layers"),
                         .heads = whole_at(settings, "heads"),
                         .width = whole_at(settings, "width"),
                         .context = whole_at(settings, "context"),
                         .batch = whole_at(settings, "batch"),
                         .steps = whole_at(settings, "steps"),
                         .learning_rate = settings.at("learning_rate"),
                         .final_learning_rate = settings.at("final_learning_rate"),
                         .warmup_steps = whole_at(settings, "warmup_steps"),
                         .tune = whole_at(settings, "tune"),
                         .wall_seconds = settings.at("wall_seconds"),
                         .seeds = whole_numbers_at(settings, "seeds")};
  if (json.contains("configuration")) comparison.configuration = json.at("configuration").dump();
  comparison.match = json.at("match");
  comparison.baseline = json.at("baseline");
  for (const Json& plan : json.at("mechanisms")) comparison.mechanisms.push_back(plan_from(plan));
  for (const Json& trial : json.at("tuning"))
    comparison.tuning.push_back({.mechanism = trial.at("mechanism"),
                                 .learning_rate = trial.at("learning_rate"),
                                 .steps = whole_at(trial, "steps"),
                                 .validation_loss = optional_at<double>(trial, "validation_loss"),
                                 .chosen = trial.at("chosen")});
  for (const Json& run : json.at("runs")) comparison.runs.push_back(run_from(run));
  // Of the runs, and not what the file says of them.
  comparison.summary = summarize(comparison);
  return comparison;
}

// `read` with the library's exceptions in the project's form, and `what` before the key of its own.
template <class Read>
auto checked(std::string_view what, std::string_view expected, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(expected_got(what, expected, error.what()));
  } catch (const Error& error) {
    throw Error(std::string(what) + ": " + error.what());
  }
}

// Text that is not UTF-8 (a file name, bytes of a corpus) is replaced, never a reason to lose the results.
std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string results_to_json(const Comparison& comparison) {
  const auto& [cogwheel, torch, compiler, chart_js] = comparison.versions;
  const Comparison::Machine& machine = comparison.machine;
  const Comparison::Data& data = comparison.data;
  const Comparison::Settings& settings = comparison.settings;
  Json json{{"schema", results_schema},
            {"command", comparison.command},
            {"created", comparison.created},
            {"verdict", verdict(comparison)},
            {"interrupted", comparison.interrupted},
            {"versions", {{"cogwheel", cogwheel}, {"torch", torch}, {"compiler", compiler}, {"chart.js", chart_js}}},
            {"machine",
             {{"cpu", machine.cpu},
              {"cores", machine.cores},
              {"threads", machine.threads},
              {"instructions", machine.instructions},
              {"matrix_products", machine.matrix_products},
              {"memory_bytes", machine.memory_bytes},
              {"system", machine.system}}},
            {"data",
             {{"name", data.name},
              {"bytes", data.bytes},
              {"sha256", data.sha256},
              {"text", data.text},
              {"byte_limit", data.byte_limit},
              {"tokenizer", data.tokenizer},
              {"vocabulary", data.vocabulary},
              {"train_tokens", data.train_tokens},
              {"held_out_tokens", data.held_out_tokens},
              {"evaluated_tokens", data.evaluated_tokens},
              {"curve_tokens", data.curve_tokens}}},
            {"settings",
             {{"preset", settings.preset},
              {"form", settings.form},
              {"precision", settings.precision},
              {"dropout", settings.dropout},
              {"layers", settings.layers},
              {"heads", settings.heads},
              {"width", settings.width},
              {"context", settings.context},
              {"batch", settings.batch},
              {"steps", settings.steps},
              {"learning_rate", settings.learning_rate},
              {"final_learning_rate", settings.final_learning_rate},
              {"warmup_steps", settings.warmup_steps},
              {"tune", settings.tune},
              {"wall_seconds", settings.wall_seconds},
              {"seeds", settings.seeds}}},
            {"match", comparison.match},
            {"baseline", comparison.baseline},
            {"mechanisms", list_of(comparison.mechanisms)},
            {"tuning", list_of(comparison.tuning)},
            {"runs", list_of(comparison.runs)},
            {"summary", list_of(comparison.summary)}};
  if (!comparison.configuration.empty()) json["configuration"] = Json::parse(comparison.configuration);
  return dump(json, 1) + "\n";
}

std::string run_to_json(const RunResult& run) { return dump(to_json(run), 1) + "\n"; }

RunResult parse_run(std::string_view json, std::string_view what) {
  return checked(what, "the JSON of a run", [&] { return run_from(Json::parse(json)); });
}

Comparison parse_results(std::string_view json, std::string_view what) {
  constexpr std::string_view expected = "the results of a comparison as JSON";
  const auto [parsed, schema] = checked(what, expected, [&] {
    Json text = Json::parse(json);
    const std::int64_t number = whole_at(text, "schema");
    return std::pair(std::move(text), number);
  });
  if (schema != results_schema)
    throw Error(expected_got(what, "schema " + std::to_string(results_schema), "schema " + std::to_string(schema)));
  return checked(what, expected, [&, &results = parsed] {
    Comparison comparison = comparison_from(results);
    expect_sound(comparison);
    return comparison;
  });
}

}  // namespace cogwheel
