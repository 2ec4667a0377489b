#include "cogwheel/runs/training/metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/training/step_lines.h"
#include "support/temporary_folder.h"

namespace cogwheel::runs {
namespace {

StepReport report(std::int64_t step) {
  return {
      .step = step,
      .steps = 100,
      .tokens = 64 * step,
      .seconds = 0.1 * static_cast<double>(step),
      .train_loss = 1.0 / 3,
      .learning_rate = 1e-3,
      .tokens_per_second = 640,
      .measured = step % 20 == 0 ? MeasuredValues{{"held_out_loss", 0.1 + 0.2}, {"accuracy", 0.25}} : MeasuredValues{}};
}

TEST(Metrics, KeepsTheDocumentedKeys) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  StepLines writer(path, 0);
  writer.write(metrics_line(report(10)));
  EXPECT_EQ(nlohmann::json::parse(read_file(path)).size(), 9u);
  for (const char* key : {"step", "tokens", "seconds", "train_loss", "learning_rate", "tokens_per_second",
                          "gradient_norm", "update_over_weight", "waiting_seconds"})
    EXPECT_TRUE(nlohmann::json::parse(read_file(path)).contains(key)) << key;
}

TEST(Metrics, RoundTripBitForBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    StepLines writer(path, 0);
    for (const std::int64_t step : {10, 20, 30}) writer.write(metrics_line(report(step)));
  }
  const auto reports = read_metrics(path);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[1].train_loss, 1.0 / 3);
  EXPECT_EQ(reports[1].measured, report(20).measured);
  EXPECT_TRUE(reports[2].measured.empty());
}

TEST(Metrics, HeadsRoundTripToFiveDigits) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  StepReport sent = report(20);
  sent.heads = {{{.sink = 0.25, .negative_mass = 1.0 / 3}, {.entropy = 2}}, {{.sum = -1, .abs_sum = 1}}};
  StepLines(path, 0).write(metrics_line(sent));
  const auto heads = read_metrics(path).at(0).heads;
  sent.heads[0][0].negative_mass = 0.33333;
  EXPECT_EQ(heads, sent.heads);
}

TEST(Metrics, DropWhatFollowsTheCheckpoint) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    StepLines writer(path, 0);
    for (const std::int64_t step : {10, 20, 30, 40}) writer.write(metrics_line(report(step)));
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 50, \"tok";  // cut short by a crash
  StepLines(path, 25).write(metrics_line(report(30)));
  std::vector<std::int64_t> steps;
  for (const auto& line : read_metrics(path)) steps.push_back(line.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30}));
}

TEST(Metrics, NameTheLineThatIsDamaged) {
  const TemporaryFolder folder;
  try {
    read_metrics(folder.write("metrics.jsonl", "{\"step\": 1}\n"));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected a report on line 1"), std::string::npos) << error.what();
  }
}

TEST(Metrics, OfOlderRunsCanBeRead) {
  const TemporaryFolder folder;
  const auto reports = read_metrics(folder.write(
      "metrics.jsonl", R"({"step":1,"tokens":2,"seconds":3,"train_loss":4,"learning_rate":5,"tokens_per_second":6})"
                       "\n"));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].gradient_norm, 0);
  EXPECT_TRUE(reports[0].measured.empty());
}

TEST(Metrics, SamplesAreLinesOfTheirStep) {
  const auto line = nlohmann::json::parse(sample_line({.step = 7, .prompt = "a \"b\"\n", .text = "c\xff"}));
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["prompt"], "a \"b\"\n");
}

}  // namespace
}  // namespace cogwheel::runs
