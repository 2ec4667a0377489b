#include "cogwheel/report/results_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/evaluate/verdict.h"
#include "cogwheel/train/head_statistics_json.h"

namespace cogwheel {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}
Json number(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

template <class Value>
std::optional<Value> optional_at(const Json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return std::nullopt;
  return object.at(key).get<Value>();
}

Json to_json(const RunResult& run) {
  Json json{{"mechanism", run.mechanism},
            {"seed", run.seed},
            {"learning_rate", run.learning_rate},
            {"parameters", run.parameters},
            {"tokens", run.tokens},
            {"seconds", run.seconds},
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
                .seed = json.at("seed"),
                .learning_rate = json.at("learning_rate"),
                .parameters = json.at("parameters"),
                .tokens = json.at("tokens"),
                .seconds = json.at("seconds"),
                .tokens_per_second = json.at("tokens_per_second"),
                .peak_memory_bytes = optional_at<std::int64_t>(json, "peak_memory_bytes"),
                .status = find_status(json.at("status").get<std::string>()),
                .message = json.value("message", ""),
                .held_out_loss = optional_at<double>(json, "held_out_loss")};
  for (const Json& point : json.at("curve"))
    run.curve.push_back({.step = point.at("step"),
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

SummaryRow row_from(const Json& json) {
  return {.mechanism = json.at("mechanism"),
          .seeds = json.at("seeds"),
          .mean = optional_at<double>(json, "mean"),
          .interval = optional_at<double>(json, "interval"),
          .pairs = json.at("pairs"),
          .difference = optional_at<double>(json, "difference"),
          .difference_interval = optional_at<double>(json, "difference_interval"),
          .difference_confidence = optional_at<double>(json, "difference_confidence"),
          .p_adjusted = optional_at<double>(json, "p_adjusted")};
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
          .steps = json.at("steps"),
          .learning_rate = json.at("learning_rate"),
          .heads = json.at("heads"),
          .feed_forward = json.at("feed_forward"),
          .parameters = json.at("parameters"),
          .parameters_unmatched = json.at("parameters_unmatched")};
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
                        .system = machine.at("system"),
                        .cores = machine.at("cores"),
                        .threads = machine.at("threads"),
                        .memory_bytes = machine.at("memory_bytes")};
  comparison.data = {.name = data.at("name"),
                     .tokenizer = data.at("tokenizer"),
                     .sha256 = data.at("sha256"),
                     .text = data.at("text"),
                     .byte_limit = data.at("byte_limit"),
                     .bytes = data.at("bytes"),
                     .vocabulary = data.at("vocabulary"),
                     .train_tokens = data.at("train_tokens"),
                     .held_out_tokens = data.at("held_out_tokens"),
                     .evaluated_tokens = data.at("evaluated_tokens")};
  const Comparison::Settings defaults;
  comparison.settings = {.preset = settings.at("preset"),
                         .form = settings.value("form", defaults.form),
                         .precision = settings.value("precision", defaults.precision),
                         .dropout = settings.value("dropout", defaults.dropout),
                         .layers = settings.at("layers"),
                         .heads = settings.at("heads"),
                         .width = settings.at("width"),
                         .context = settings.at("context"),
                         .batch = settings.at("batch"),
                         .steps = settings.at("steps"),
                         .learning_rate = settings.at("learning_rate"),
                         .final_learning_rate = settings.at("final_learning_rate"),
                         .warmup_steps = settings.at("warmup_steps"),
                         .tune = settings.at("tune"),
                         .wall_seconds = settings.at("wall_seconds"),
                         .seeds = settings.at("seeds")};
  comparison.match = json.at("match");
  comparison.baseline = json.at("baseline");
  for (const Json& plan : json.at("mechanisms")) comparison.mechanisms.push_back(plan_from(plan));
  for (const Json& trial : json.at("tuning"))
    comparison.tuning.push_back({.mechanism = trial.at("mechanism"),
                                 .learning_rate = trial.at("learning_rate"),
                                 .steps = trial.at("steps"),
                                 .validation_loss = optional_at<double>(trial, "validation_loss"),
                                 .chosen = trial.at("chosen")});
  for (const Json& run : json.at("runs")) comparison.runs.push_back(run_from(run));
  for (const Json& row : json.at("summary")) comparison.summary.push_back(row_from(row));
  return comparison;
}

// `read` with the library's exceptions in the project's form.
template <class Read>
auto checked(std::string_view what, std::string_view expected, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(expected_got(what, expected, error.what()));
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
  const Json json{
      {"schema", results_schema},
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
        {"evaluated_tokens", data.evaluated_tokens}}},
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
  return dump(json, 1) + "\n";
}

std::string run_to_json(const RunResult& run) { return dump(to_json(run), 1) + "\n"; }

RunResult parse_run(std::string_view json, std::string_view what) {
  return checked(what, "the JSON of a run", [&] { return run_from(Json::parse(json)); });
}

Comparison parse_results(std::string_view json, std::string_view what) {
  return checked(what, "the results of a comparison as JSON", [&] {
    const Json parsed = Json::parse(json);
    const int schema = parsed.at("schema");
    if (schema != results_schema)
      throw Error(expected_got(what, "schema " + std::to_string(results_schema), "schema " + std::to_string(schema)));
    return comparison_from(parsed);
  });
}

}  // namespace cogwheel
