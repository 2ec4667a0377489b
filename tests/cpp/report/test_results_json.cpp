#include "cogwheel/report/results_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "example_comparison.h"

namespace cogwheel {
namespace {

TEST(ResultsJson, WhatIsReadIsWhatWasWritten) {
  const std::string json = results_to_json(example_comparison());
  const Comparison read = parse_results(json);
  EXPECT_EQ(results_to_json(read), json);
  EXPECT_EQ(read.runs.size(), 6U);
  EXPECT_EQ(read.runs.back().status, RunStatus::diverged);
  EXPECT_FALSE(read.runs.back().held_out_loss);
  EXPECT_EQ(*read.run("cog", 2)->held_out_loss, 1.99);  // exactly: numbers are written to the last bit
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
  comparison.runs[0].held_out_loss = std::numeric_limits<double>::quiet_NaN();
  comparison.runs[0].curve[0].train_loss = std::numeric_limits<double>::infinity();
  const Comparison read = parse_results(results_to_json(comparison));
  EXPECT_FALSE(read.runs[0].held_out_loss);
  EXPECT_FALSE(read.runs[0].curve[0].train_loss);
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

}  // namespace
}  // namespace cogwheel
