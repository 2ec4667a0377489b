#include "cogwheel/compare/record/results_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "example_comparison.h"

namespace cogwheel::compare {
namespace {

TEST(ResultsJson, WhatIsReadIsWhatWasWritten) {
  const std::string json = results_to_json(example_comparison());
  const Comparison read = parse_results(json);
  EXPECT_EQ(results_to_json(read), json);
  EXPECT_EQ(read.runs.size(), 6U);
  EXPECT_EQ(read.runs.back().status, RunStatus::diverged);
  EXPECT_TRUE(read.runs.back().measured.empty());
  EXPECT_EQ(*read.result(read.run("cog", 2)), 1.99);  // exactly: numbers are written to the last bit
  EXPECT_EQ(*read.row("cog")->p_adjusted, *example_comparison().row("cog")->p_adjusted);
}

TEST(ResultsJson, HasTheKeysOfSchemaOne) {
  const auto json = nlohmann::json::parse(results_to_json(example_comparison()));
  EXPECT_EQ(json.at("schema"), 1);
  for (const char* key : {"command", "versions", "machine", "data", "match", "baseline", "runs", "summary"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* key : {"name", "bytes", "sha256"}) EXPECT_TRUE(json.at("data").contains(key)) << key;
  for (const auto& run : json.at("runs"))
    for (const char* key : {"mechanism", "seed", "learning_rate", "parameters", "tokens", "seconds",
                            "tokens_per_second", "peak_memory_bytes", "status", "held_out_loss", "curve"})
      EXPECT_TRUE(run.contains(key)) << key;
  for (const auto& row : json.at("summary"))
    for (const char* key : {"mechanism", "mean", "interval", "difference", "difference_interval", "p_adjusted"})
      EXPECT_TRUE(row.contains(key)) << key;
  EXPECT_TRUE(json.at("runs").back().at("held_out_loss").is_null());
  EXPECT_TRUE(json.at("runs")[0].at("curve")[0].contains("train_loss"));
}

TEST(ResultsJson, NumbersThatAreNotFiniteBecomeNull) {
  Comparison comparison = example_comparison();
  comparison.runs[0].measured[0].value = std::numeric_limits<double>::quiet_NaN();
  comparison.runs[0].curve[0].train_loss = std::numeric_limits<double>::infinity();
  const Comparison read = parse_results(results_to_json(comparison));
  EXPECT_TRUE(read.runs[0].measured.empty());
  EXPECT_FALSE(read.runs[0].curve[0].train_loss);
}

// Only some tasks have them, and other measures than those of the task are skipped.
TEST(ResultsJson, KeepsMeasuresByDifficulty) {
  Comparison comparison = example_comparison();
  EXPECT_EQ(results_to_json(comparison).find("by_difficulty"), std::string::npos);
  comparison.runs[0].by_difficulty = {
      {.difficulty = "pairs",
       .trained = 16,
       .points = {{.difficulty = 4, .answers = 512, .measured = {{"held_out_loss", 0.5}}},
                  {.difficulty = 32, .answers = 99, .measured = {{"held_out_loss", 0.7}}}}}};
  auto json = nlohmann::ordered_json::parse(results_to_json(comparison));
  EXPECT_EQ(results_to_json(parse_results(json.dump())), results_to_json(comparison));
  auto& points = json["runs"][0]["by_difficulty"][0]["points"];
  EXPECT_EQ(points[1].dump(), R"({"difficulty":32,"answers":99,"held_out_loss":0.7})");
  points[1]["of_a_later_version"] = 3;
  EXPECT_EQ(parse_results(json.dump()).runs[0].by_difficulty[0].points[1].measured.size(), 1U);
  points[1]["difficulty"] = 4;
  try {
    parse_results(json.dump(), "r");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "r: runs: softmax seed 1: by_difficulty: expected difficulties that rise, got 4 after 4");
  }
}

TEST(ResultsJson, RefusesWhatItCannotRead) {
  EXPECT_THROW(parse_results("{"), Error);
  EXPECT_THROW(parse_results("{\"schema\": 1}"), Error);
  try {
    parse_results("{\"schema\": 2}", "old/results.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "old/results.json: expected schema 1, got schema 2");
  }
}

// All later code relies on these checks.
TEST(ResultsJson, RefusesWhatCannotBe) {
  using Json = nlohmann::ordered_json;
  const Json good = Json::parse(results_to_json(example_comparison()));
  const auto refusal = [&](const std::string& pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    try {
      parse_results(changed.dump(), "r");
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(one_line(error.what()), error.what());
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal("/mechanisms", Json::array()), "r: mechanisms: expected one at least, got none");
  EXPECT_EQ(refusal("/settings/seeds", Json::array()), "r: settings.seeds: expected one at least, got none");
  EXPECT_EQ(refusal("/settings/seeds", {1, 1}), "r: settings.seeds: expected each once, got one twice");
  EXPECT_EQ(refusal("/settings/seeds", 3), "r: seeds: expected an array, got 3");
  EXPECT_EQ(refusal("/settings/seeds/0", 1.5), "r: seeds: expected a whole number, got 1.5");
  EXPECT_EQ(refusal("/settings/steps", 0), "r: settings.steps: expected a number from 1 to 1000000000, got 0");
  EXPECT_EQ(refusal("/settings/form", "lama"), "r: settings.form: expected llama (the nearest of 2 names), got lama");
  EXPECT_EQ(refusal("/configuration/model.width", 0), "r: configuration: model.width: expected at least 1, got 0");
  EXPECT_EQ(refusal("/settings/steps", 18446744073709551615u),
            "r: steps: expected a whole number, got 18446744073709551615");
  EXPECT_EQ(refusal("/configuration/training.learning_rate", -1),
            "r: configuration: training.learning_rate: expected above 0, got -1");
  EXPECT_EQ(refusal("/configuration/model.width", nullptr),
            "r: configuration: model.width: expected a text, a number, true or false, or texts, got null");
  EXPECT_EQ(refusal("/configuration/model.widht", 3),
            "r: configuration: key: expected model.width, model.window (the nearest of 81 names), got model.widht");
  EXPECT_EQ(refusal("/mechanisms/0/title", 3), "r: title: expected a text, got 3");
  EXPECT_EQ(refusal("/runs/0/seconds", "long"), "r: seconds: expected a number, got \"long\"");
  EXPECT_EQ(refusal("/tuning/0/chosen", Json::array({1})), "r: chosen: expected true or false, got an array");
  EXPECT_EQ(refusal("/runs/0/curve/0", nullptr), "r: curve: expected an object, got null");
  EXPECT_EQ(refusal("/runs/0/curve/0/heads", {{"sink", 1}}),
            "r: heads: expected an array of layers for each statistic, got an object");
  EXPECT_EQ(refusal("/mechanisms/0/title", ""),
            "r: mechanisms: expected a name and a title for each, got none for one");
  EXPECT_EQ(refusal("/mechanisms/1/name", "softmax"), "r: mechanisms: expected each once, got softmax twice");
  EXPECT_EQ(refusal("/baseline", "kog"), "r: baseline: expected cog (the nearest of 3 names), got kog");
  EXPECT_EQ(refusal("/match", "luck"), "r: match: expected one of parameters, time, tokens, got luck");
  EXPECT_EQ(refusal("/runs/0/mechanism", "kog"), "r: runs: expected those of its mechanisms and seeds, got kog seed 1");
  EXPECT_EQ(refusal("/runs/1", good["/runs/0"_json_pointer]), "r: runs: softmax seed 1: expected one, got two");
  EXPECT_EQ(refusal("/runs/0/held_out_loss", 1e308),
            "r: runs: softmax seed 1: held_out_loss: expected a number from 0 to 1e+30, got 1e+308");
  EXPECT_EQ(refusal("/runs/0/curve/1/step", 5),
            "r: runs: softmax seed 1: curve: expected steps that rise, got 5 after 20");
  EXPECT_EQ(refusal("/runs/0/status", "fine"),
            "r: run status: expected done, diverged, interrupted or failed, got fine");
  EXPECT_EQ(refusal("/data/evaluated_tokens", 501),
            "r: data.evaluated_tokens: expected a number from 1 to 500, got 501");
  EXPECT_EQ(refusal("/task/measures", Json::array()), "r: task.measures: expected one at least, got none");
  EXPECT_EQ(refusal("/task/measures/0/name", "seed"),
            "r: task.measures: expected names that no other key has, got seed");
  EXPECT_EQ(refusal("/task/measures/1", good["/task/measures/0"_json_pointer]),
            "r: task.measures: expected names that no other key has, got held_out_loss");
  EXPECT_EQ(refusal("/tuning/0/mechanism", "kog"), "r: tuning: expected trials of its mechanisms, got kog");
  // Every value in turn replaced by one of another type: an error of one line or none, never a crash.
  const Json flat = good.flatten();
  for (const auto& [pointer, value] : flat.items())
    for (const Json& other : {Json(), Json(-1), Json("x"), Json::array(), Json::object(), Json(1e300)})
      refusal(pointer, other);
}

// Of the loss of a density there is no bound.
TEST(ResultsJson, AMeasureSaysWhatItCannotBeBelow) {
  Comparison comparison = example_comparison();
  for (RunResult& run : comparison.runs)
    for (runs::MeasuredValue& each : run.measured) each.value -= 3;
  comparison.task.measures.front().min = std::nullopt;
  comparison.summary = summarize(comparison);
  const std::string text = results_to_json(comparison);
  EXPECT_EQ(results_to_json(parse_results(text, "r")), text);
  auto json = nlohmann::ordered_json::parse(text);
  json["task"]["measures"][0].erase("min");
  EXPECT_EQ(results_to_json(parse_results(json.dump(), "r")), text);
  json["task"]["measures"][0]["min"] = 0;
  EXPECT_THROW(parse_results(json.dump(), "r"), Error);
}

TEST(ResultsJson, NamesAKeyThatIsMissing) {
  using Json = nlohmann::ordered_json;
  const auto refusal = [](const std::string& object, const std::string& key) {
    Json json = Json::parse(results_to_json(example_comparison()));
    json[Json::json_pointer(object)].erase(key);
    try {
      parse_results(json.dump(), "r");
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal("", "schema"), "r: schema: expected a whole number, got nothing");
  EXPECT_EQ(refusal("", "settings"), "r: settings: expected an object, got nothing");
  EXPECT_EQ(refusal("/settings", "seeds"), "r: seeds: expected an array, got nothing");
  EXPECT_EQ(refusal("/versions", "chart.js"), "r: chart.js: expected a text, got nothing");
  EXPECT_EQ(refusal("/runs/0", "held_out_loss"), "accepted");  // as if it were null
  EXPECT_EQ(refusal("", "task"), "r: task: expected an object, got nothing");
  EXPECT_EQ(refusal("", "configuration"), "r: configuration: expected an object, got nothing");
  EXPECT_EQ(refusal("/data", "curve_tokens"), "r: curve_tokens: expected a whole number, got nothing");
}

TEST(ResultsJson, WritesKeysInTheOrderOfTheirLists) {
  const auto json = nlohmann::ordered_json::parse(results_to_json(example_comparison()));
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::string names;
    for (const auto& [name, value] : object.items()) names += name + " ";
    return names;
  };
  EXPECT_EQ(
      keys(json),
      "schema command created verdict interrupted versions machine task data settings configuration match baseline "
      "mechanisms tuning runs summary ");
  EXPECT_EQ(keys(json["runs"].back()),
            "mechanism seed learning_rate parameters tokens seconds evaluation_seconds tokens_per_second "
            "peak_memory_bytes status message held_out_loss curve ");
  EXPECT_EQ(keys(json["runs"][0]["curve"][0]), "step train_loss held_out_loss ");
  EXPECT_FALSE(json["runs"][0].contains("message"));
}

TEST(ResultsJson, MakesTheSummaryAgain) {
  auto json = nlohmann::ordered_json::parse(results_to_json(example_comparison()));
  json["summary"][1]["p_adjusted"] = 1e-9;
  json["summary"][1]["difference"] = nullptr;
  EXPECT_EQ(*parse_results(json.dump()).row("cog")->p_adjusted, *example_comparison().row("cog")->p_adjusted);
}

// The settings that follow from the configuration are written for other readers; a file that says something else there
// changes nothing.
TEST(ResultsJson, MakesTheSettingsOfTheConfigurationAgain) {
  Comparison comparison = example_comparison();
  runs::common(comparison.configuration.model).dropout = 0.25;
  comparison.configuration.training.precision = "bf16";
  const std::string text = results_to_json(comparison);
  auto json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json["settings"]["width"], 32);
  EXPECT_EQ(json["settings"]["dropout"], 0.25);
  EXPECT_EQ(json["settings"]["precision"], "bf16");
  EXPECT_EQ(json["settings"]["warmup_steps"], 4);
  json["settings"]["width"] = 64;
  json["settings"].erase("precision");
  EXPECT_EQ(results_to_json(parse_results(json.dump())), text);
}

}  // namespace
}  // namespace cogwheel::compare
