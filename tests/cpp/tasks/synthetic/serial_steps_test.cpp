// Serial problems with steps in between and without: parity and permutations of which the last answer counts.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <set>
#include <sstream>

#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "support/usage_error_of.h"
#include "tasks/synthetic/made_task.h"

namespace cogwheel::tasks::synthetic::serial_steps_test {
namespace {

runs::RunConfig config_with(const char* steps, std::int64_t length = 10, const char* task = "parity") {
  Values values{{"length", length}, {"steps", std::string(steps)}};
  if (task == std::string("permutations")) values["group"] = std::string("S3");
  return config_of(task, values, 40);
}

std::string refusal_of_steps(const char* steps, std::int64_t length = 10) {
  const runs::RunConfig config = config_with(steps, length);
  return usage_error_of([&] { runs::make_task(config)->completed(config); });
}

std::size_t last_place(const Numbers& targets) {
  std::size_t last = 0;
  for (std::size_t place = 0; place < targets.size(); ++place)
    if (targets[place] != ignored_target) last = place;
  return last;
}

TEST(SerialSteps, AreTheStatesBetweenTheTokensOfOneString) {
  constexpr std::int64_t nothing = 4;  // bits, states, and the token between where none is written
  const runs::Batch none = Made(config_with("none")).batch(), asked = Made(config_with("asked")).batch(),
                    written = Made(config_with("written")).batch();
  ASSERT_EQ(none.inputs.sizes(), (at::IntArrayRef{64, 20}));
  EXPECT_TRUE(none.inputs.equal(asked.inputs));
  EXPECT_TRUE(asked.targets.equal(written.targets));
  std::set<std::size_t> lengths;
  for (std::int64_t row = 0; row < 64; ++row) {
    const Numbers inputs = row_of(none.inputs, row), targets = row_of(none.targets, row),
                  with_steps = row_of(written.inputs, row), all_targets = row_of(written.targets, row);
    const std::size_t last = last_place(targets);
    EXPECT_EQ(last, last_place(all_targets));
    EXPECT_EQ(last % 2, 0u);
    lengths.insert(last / 2 + 1);
    std::int64_t ones = 0;
    for (std::size_t place = 0; place < inputs.size(); ++place) {
      const bool is_token = place % 2 == 0 && place <= last;
      if (!is_token) {
        EXPECT_EQ(inputs[place], nothing);
        EXPECT_EQ(with_steps[place], place > last ? nothing : 2 + ones % 2) << place;
        EXPECT_EQ(targets[place], ignored_target);
        EXPECT_EQ(all_targets[place], ignored_target);
        continue;
      }
      ASSERT_TRUE(inputs[place] == 0 || inputs[place] == 1);
      EXPECT_EQ(inputs[place], with_steps[place]);
      ones += inputs[place];
      EXPECT_EQ(all_targets[place], 2 + ones % 2);
      EXPECT_EQ(targets[place], place == last ? 2 + ones % 2 : ignored_target);
    }
  }
  EXPECT_EQ(lengths.size(), 10u);
}

// The last answer, with every earlier one as the model itself gives it, in passes over the text so far, of the strings
// that measured_problems names.
TEST(SerialSteps, AreWrittenByTheModelThatIsMeasured) {
  for (const char* name : {"parity", "permutations"}) {
    const Made made(config_with("written", 6, name));
    made.task->initialize(*made.model, 2);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : made.model->parameters()) parameter.mul_(6);
    auto& model = dynamic_cast<language::LanguageModelImpl&>(*made.model);
    const std::int64_t nothing = made.completed.model.as<language::LanguageModelOptions>().vocabulary - 1;
    std::istringstream problems(made.task->measured_problems(made.completed.model, made.training));
    for (std::string word; word != "windows:";) ASSERT_TRUE(problems >> word);
    Numbers text;
    int rows = 0, right = 0, wrong_steps = 0;
    for (std::string word; problems >> word;) {
      const std::size_t last = word.find('=');
      text.push_back(std::stoll(word.substr(0, last)));
      if (text.back() == nothing) {
        text.clear();
        continue;
      }
      const auto answer = model.forward(torch::tensor(text).unsqueeze(0))[0][-1].argmax().item<std::int64_t>();
      text.push_back(answer);
      if (last == std::string::npos) {
        wrong_steps += answer < nothing / 2 ? 1 : 0;
        continue;
      }
      right += answer == std::stoll(word.substr(last + 1)) ? 1 : 0;
      ++rows;
      text.clear();
    }
    EXPECT_GT(wrong_steps, 0) << name;
    const auto measured =
        made.task->limited(12 * rows)->evaluate(*made.model, made.training, runs::EvaluationPart::whole, nullptr);
    EXPECT_NEAR(*runs::find_value(measured, "accuracy"), static_cast<double>(right) / rows, 1e-9) << name;
  }
}

TEST(SerialSteps, MeasureTheSameProblems) {
  const auto problems = [](const char* steps, std::int64_t length = 10, const char* task = "parity") {
    const Made made(config_with(steps, length, task));
    return made.task->limited(40 * length)->measured_problems(made.completed.model, made.training);
  };
  EXPECT_EQ(problems("none"), problems("written"));
  EXPECT_EQ(problems("none"), problems("asked"));
  EXPECT_NE(problems("none"), problems("none", 9));
  EXPECT_NE(problems("none"), problems("none", 10, "permutations"));
  EXPECT_EQ(problems("dense"), "");
  EXPECT_EQ(refusal_of_steps("some"), "task.steps: expected none (the nearest of 4 names), got some");
  EXPECT_EQ(refusal_of_steps("none", 21),
            "model.context: expected at least 42 for the task parity with length up to 21, got 40");
  // Runs from before the option can be resumed.
  EXPECT_FALSE(Made(config_of("parity", {})).completed.task.values.contains("steps"));
}

TEST(SerialSteps, AreLearned) {
  runs::RunConfig config = config_of("parity", {{"length", std::int64_t{32}}, {"steps", "written"}}, 128);
  auto& options = config.model.as<language::LanguageModelOptions>();
  language::set_form(options, "llama");
  options.layers = 2;
  options.width = 32;
  config.training.steps = 150;
  config.training.batch = 16;
  config.training.learning_rate = 1e-2;
  config.training.evaluate_every = 0;
  const Made made(config);
  const auto task = made.task->limited(64 * 128);
  runs::TrainingRun run(made.completed.model, config.training, task);
  const runs::MeasuredValues before = run.measure();
  EXPECT_NEAR(*runs::find_value(before, "held_out_loss"), std::log(5.0), 0.1);
  EXPECT_LT(*runs::find_value(before, "accuracy"), 0.7);
  run.train({.report = [](const runs::StepReport&) {}, .checkpoint = {}});
  EXPECT_GT(*runs::find_value(run.last_measured(), "accuracy"), 0.95);
  const runs::Inspection seen = task->inspect(*run.model(), 1, nullptr);
  EXPECT_EQ(seen.by_difficulty.front().points.back().difficulty, 64);
  EXPECT_EQ(seen.by_difficulty.front().points.back().answers, 128);
}

}  // namespace
}  // namespace cogwheel::tasks::synthetic::serial_steps_test
