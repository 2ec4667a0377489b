// zeros_and_ones, against its description.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/generator.h"
#include "support/usage_error_of.h"
#include "tasks/synthetic/made_task.h"

namespace cogwheel::tasks::synthetic::zeros_and_ones_test {
namespace {

constexpr std::int64_t zero_question = 10, ones_question = 11, equals = 12, yes = 13, no = 14, stop = 15;

TEST(ZerosAndOnes, AreAnsweredByCounting) {
  runs::RunConfig config = config_of("zeros_and_ones", {{"length", std::int64_t{12}}});
  config.training.batch = 600;
  const Made made(config);
  const runs::Batch batch = made.batch();
  ASSERT_EQ(batch.inputs.size(1), 12 + 2 + 2);
  std::map<std::int64_t, int> of_question, of_answer, of_length, of_zero_place;
  for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) {
    const Numbers inputs = row_of(batch.inputs, row), targets = row_of(batch.targets, row);
    const auto end = std::find(inputs.begin(), inputs.end(), equals);
    ASSERT_NE(end, inputs.end());
    const Numbers digits(inputs.begin() + 1, end);
    const auto ones = std::count(digits.begin(), digits.end(), 1), zeros = std::count(digits.begin(), digits.end(), 0);
    EXPECT_EQ(ones + zeros, std::ssize(digits));
    ++of_question[inputs[0]];
    ++of_length[std::ssize(digits)];
    auto place = static_cast<std::size_t>(end - inputs.begin());
    for (std::size_t before = 0; before < place; ++before) EXPECT_EQ(targets[before], ignored_target);
    if (inputs[0] == zero_question) {
      EXPECT_LE(zeros, 1);
      EXPECT_EQ(targets[place], zeros == 1 ? yes : no);
      ++of_answer[targets[place]];
      if (zeros == 1 && digits.size() == 12)
        ++of_zero_place[std::find(digits.begin(), digits.end(), 0) - digits.begin()];
    } else {
      ASSERT_EQ(inputs[0], ones_question);
      std::string answer;
      for (; targets[place] != stop; ++place) {
        ASSERT_TRUE(targets[place] >= 0 && targets[place] <= 9);
        EXPECT_EQ(inputs[place + 1], targets[place]);
        answer += static_cast<char>('0' + targets[place]);
      }
      EXPECT_EQ(answer, std::to_string(ones));
    }
    for (++place; place < inputs.size(); ++place) {
      EXPECT_EQ(targets[place], ignored_target);
      EXPECT_EQ(inputs[place], stop);
    }
  }
  EXPECT_NEAR(of_question[zero_question], 300, 60);
  EXPECT_NEAR(of_answer[yes], of_answer[no], 70);
  EXPECT_EQ(of_length.size(), 12u);
  EXPECT_GT(of_zero_place.size(), 4u);
}

// Accuracy is the share of what the model, asked to go on, answers rightly: every digit, and then no more.
TEST(ZerosAndOnes, AreLearnedAndMeasuredByWholeAnswers) {
  runs::RunConfig config = config_of("zeros_and_ones", {{"length", std::int64_t{12}}}, 24);
  config.model.as<language::LanguageModelOptions>().width = 32;
  config.training.steps = 150;
  config.training.batch = 32;
  config.training.learning_rate = 1e-2;
  config.training.evaluate_every = 0;
  Made made(config);
  const auto task = made.task->limited(16 * 512);
  runs::TrainingRun run(made.completed.model, config.training, task);
  const runs::MeasuredValues before = run.measure();
  EXPECT_NEAR(*runs::find_value(before, "held_out_loss"), std::log(16.0), 0.1);
  EXPECT_LT(*runs::find_value(before, "zero_accuracy"), 0.65);
  EXPECT_LT(*runs::find_value(before, "count_accuracy"), 0.2);
  run.train({.report = [](const runs::StepReport&) {}, .checkpoint = {}});
  EXPECT_LT(*runs::find_value(run.last_measured(), "held_out_loss"), std::log(16.0) / 2);

  language::LanguageModel model(std::dynamic_pointer_cast<language::LanguageModelImpl>(run.model()));
  made.training.batch = 300;
  const runs::Batch fresh = made.batch(100'000);
  std::map<std::int64_t, int> right, asked;
  for (std::int64_t row = 0; row < 300; ++row) {
    const Numbers inputs = row_of(fresh.inputs, row), targets = row_of(fresh.targets, row);
    const auto end = std::find(inputs.begin(), inputs.end(), equals);
    const std::vector<Token> prompt(inputs.begin(), end + 1);
    std::vector<Token> expected;
    std::ranges::copy_if(targets, std::back_inserter(expected), [](auto target) { return target != ignored_target; });
    const auto answer = language::sample(model, prompt, {.length = std::ssize(expected), .temperature = 0});
    ++asked[inputs[0]];
    right[inputs[0]] += answer == expected ? 1 : 0;
  }
  const auto expect_share = [&](const char* measure, std::int64_t question) {
    EXPECT_NEAR(*runs::find_value(run.last_measured(), measure), static_cast<double>(right[question]) / asked[question],
                0.12)
        << measure;
  };
  expect_share("zero_accuracy", zero_question);
  expect_share("count_accuracy", ones_question);
  EXPECT_GT(right[ones_question], 30);  // so that more than nothing is compared
  EXPECT_LT(right[ones_question], asked[ones_question]);

  const runs::Inspection seen = task->inspect(*run.model(), 1, nullptr);
  EXPECT_EQ(seen.by_difficulty.front().points.back().difficulty, 20);
  EXPECT_EQ(seen.by_difficulty.front().points.back().answers, 128);
  ASSERT_EQ(seen.tables.size(), 2u);
  EXPECT_EQ(seen.tables[1].title, "Accuracy of counting ones by length");
}

TEST(ZerosAndOnes, RefuseWhatDoesNotFit) {
  const runs::RunConfig config = config_of("zeros_and_ones", {{"length", std::int64_t{61}}});
  EXPECT_EQ(usage_error_of([&] { runs::make_task(config)->completed(config); }),
            "model.context: expected at least 65 for the task zeros_and_ones with length up to 61, got 64");
}

}  // namespace
}  // namespace cogwheel::tasks::synthetic::zeros_and_ones_test
