// The copying task, against its description.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::synthetic::copying_test {
namespace {

runs::RunConfig config_of(std::int64_t symbols = 4) {
  runs::RunConfig config;
  config.task = {"copying", {{"symbols", symbols}}};
  config.model.as<language::LanguageModelOptions>().context = 12;
  config.model.as<language::LanguageModelOptions>().layers = 2;
  config.model.as<language::LanguageModelOptions>().heads = 2;
  config.model.as<language::LanguageModelOptions>().width = 32;
  config.training.steps = 500;
  config.training.batch = 16;
  config.training.learning_rate = 5e-3;
  config.training.evaluate_every = 0;
  config.training.curve_tokens = 1200;
  return config;
}

TEST(Copying, DrawsStringsOfEveryLengthAndTheirCopies) {
  const runs::RunConfig config = config_of();
  const auto task = runs::make_task(config);
  const auto model = runs::make_model(task->completed(config).model);
  runs::TrainingOptions training = config.training;
  training.batch = 300;
  const runs::Batch batch = task->batch(*model, training, {});
  EXPECT_EQ(batch.tokens, 300 * 12);
  std::vector<int> lengths(7);
  for (std::int64_t row = 0; row < 300; ++row) {
    const auto inputs = batch.inputs[row], targets = batch.targets[row];
    const auto length = (targets != -100).sum().item<std::int64_t>();
    ASSERT_GE(length, 1);
    ASSERT_LE(length, 6);
    ++lengths[static_cast<std::size_t>(length)];
    const at::Tensor string = inputs.slice(0, 0, length);
    EXPECT_LT(string.max().item<std::int64_t>(), 4);
    EXPECT_EQ(inputs[length].item<std::int64_t>(), 4);  // the separator
    EXPECT_TRUE(targets.slice(0, length, 2 * length).equal(string));
    EXPECT_TRUE(inputs.slice(0, length + 1, 2 * length).equal(string.slice(0, 0, length - 1)));
  }
  for (std::size_t length = 1; length <= 6; ++length) EXPECT_GT(lengths[length], 20) << length;
  // Batches depend only on seed and step, and differ between steps.
  EXPECT_TRUE(task->batch(*model, training, {}).inputs.equal(batch.inputs));
  EXPECT_FALSE(task->batch(*model, training, {1, training.batch}).inputs.equal(batch.inputs));
  ++training.seed;
  EXPECT_FALSE(task->batch(*model, training, {}).inputs.equal(batch.inputs));
}

TEST(Copying, IsLearnedAndMeasured) {
  const runs::RunConfig config = config_of();
  const auto task = runs::make_task(config)->limited(6000);
  runs::TrainingRun run(config.model, config.training, task);
  const runs::MeasuredValues before = run.measure();
  EXPECT_NEAR(*runs::find_value(before, "held_out_loss"), std::log(5.0), 0.1);
  std::vector<runs::StepReport> reports;
  EXPECT_EQ(run.train({.report = [&](const runs::StepReport& report) { reports.push_back(report); }, .checkpoint = {}}),
            runs::TrainingStatus::finished);
  const double accuracy = *runs::find_value(run.last_measured(), "accuracy");
  EXPECT_GT(accuracy, 0.9);
  EXPECT_LT(*runs::find_value(run.last_measured(), "held_out_loss"), 0.3);
  ASSERT_FALSE(reports.back().final_measured.empty());  // curves use less
  EXPECT_EQ(run.tokens(), 500 * 16 * 12);

  const runs::Inspection seen = task->inspect(*run.model(), 1, nullptr);
  EXPECT_EQ(seen.prompt.size(), 7u);
  EXPECT_EQ(seen.prompt.back(), '|');
  EXPECT_EQ(seen.sample.size(), 6u);
  EXPECT_EQ(seen.tokens.size(), 12u);
  EXPECT_EQ(seen.maps.size(), 2u);
  ASSERT_EQ(seen.tables.size(), 1u);
  double sum = 0;
  for (const auto& row : seen.tables[0].rows) sum += std::stod(row.at(1));
  EXPECT_NEAR(sum / static_cast<double>(seen.tables[0].rows.size()), accuracy, 0.15);
}

TEST(Copying, TunesOnSeparateStrings) {
  const auto task = runs::make_task(config_of())->limited(1200), tuning = task->for_tuning();
  const auto model = runs::make_model(task->completed(config_of()).model);
  task->initialize(*model, 3);
  const runs::TrainingOptions training = config_of().training;
  const auto loss = [&](const runs::Task& of) {
    return *runs::find_value(of.evaluate(*model, training, runs::EvaluationPart::whole, nullptr), "held_out_loss");
  };
  EXPECT_EQ(loss(*task), loss(*task));
  EXPECT_NE(loss(*task), loss(*tuning));
}

TEST(Copying, RefusesWhatCannotBe) {
  const auto refusal = [](runs::RunConfig config) -> std::string {
    try {
      runs::make_task(config)->completed(config);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(config_of()), "accepted");
  EXPECT_EQ(refusal(config_of(1)), "task.symbols: expected at least 2, got 1");
  runs::RunConfig config = config_of();
  config.task.values["symbol"] = std::int64_t{3};
  EXPECT_EQ(refusal(config), "task: key: expected symbols (the nearest of 2 names), got symbol");
  config = config_of();
  config.task.values["symbols"] = 2.5;
  EXPECT_EQ(refusal(config), "task.symbols: expected a whole number, got 2.5");
  config = config_of();
  config.data.text = {"a.txt"};
  EXPECT_EQ(refusal(config), "data.text: expected none for the task copying, got a.txt");
  config = config_of();
  config.data.tokenizer = "byte";
  EXPECT_EQ(refusal(config), "data.tokenizer: expected none for the task copying, got byte");
  config = config_of();
  config.model.as<language::LanguageModelOptions>().context = 1;
  EXPECT_EQ(refusal(config).substr(0, 14), "model.context:");
}

}  // namespace
}  // namespace cogwheel::tasks::synthetic::copying_test
