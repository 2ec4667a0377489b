#include "cogwheel/compare/comparison_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace cogwheel::compare {
namespace {

TEST(ComparisonJob, ATrialThatFailsEndsNeitherTheOthersNorTheRuns) {
  const TemporaryFolder temporary;
  CompareRequest request;
  request.preset = "recall";
  request.attention = {"softmax", "cog"};
  request.seeds = 1;
  request.steps = 4;
  request.tune = 2;
  Comparison comparison = plan_comparison(request);
  const auto task = load_tasks(comparison);
  decide_steps(comparison, {.steps = 4}, [](const auto&...) { return 100.0; });
  const ComparisonFolder folder = ComparisonFolder::create(temporary.path() / "out", false);
  std::vector<std::string> lines;
  std::string refused;
  ComparisonJob job(comparison, task, folder,
                    {.progress =
                         [&](const std::string& label, const runs::StepReport&) {
                           if (refused.empty() && label.starts_with("cog learning rate")) refused = label;
                           if (label == refused) throw std::runtime_error("no memory\nfor this");
                         },
                     .line = [&](const std::string& text) { lines.push_back(text); },
                     .stop = nullptr});
  job.run();
  EXPECT_NO_THROW(job.expect_success());
  EXPECT_EQ(job.comparison().finished_runs(), 2);
  for (const Comparison& each : {job.comparison(), folder.read()}) {
    ASSERT_EQ(each.tuning.size(), 4U);
    const TuningTrial &failed = each.tuning[2], &other = each.tuning[3];
    EXPECT_FALSE(failed.value);
    EXPECT_EQ(failed.message, "no memory for this");
    EXPECT_FALSE(failed.chosen);
    EXPECT_TRUE(other.value && other.chosen && other.message.empty());
    EXPECT_EQ(each.plan("cog")->learning_rate, other.learning_rate);
  }
  EXPECT_EQ(lines[2].substr(lines[2].find("failed")), "failed: no memory for this");
}

TEST(ComparisonJob, TrialsOfAStoreAreMadeOnce) {
  const TemporaryFolder temporary;
  CompareRequest request;
  request.preset = "recall";
  request.attention = {"softmax", "cog"};
  request.seeds = 1;
  request.steps = 4;
  request.tune = 2;
  Comparison comparison = plan_comparison(request);
  const auto task = load_tasks(comparison);
  decide_steps(comparison, {.steps = 4}, [](const auto&...) { return 100.0; });
  const auto run = [&](const char* name, RunStore& store, std::int64_t& steps) {
    ComparisonJob job(comparison, task, ComparisonFolder::create(temporary.path() / name, false),
                      {.progress = [&](const std::string&, const runs::StepReport&) { ++steps; },
                       .line = [](const std::string&) {},
                       .stop = nullptr},
                      &store);
    job.run();
    return job.comparison();
  };
  RunStore store(temporary.path() / "models", "1");
  const auto stored = [&](const RunStore& asked) {
    Comparison counted = comparison;
    const std::int64_t taken = take_stored_trials(counted, task, asked);
    return std::pair(taken, counted);
  };
  EXPECT_EQ(stored(store).first, 0);
  std::int64_t steps = 0;
  const Comparison first = run("first", store, steps);
  EXPECT_GT(steps, 0);
  steps = 0;
  const Comparison again = run("again", store, steps);
  EXPECT_EQ(steps, 0);
  const auto [taken, counted] = stored(store);
  EXPECT_EQ(taken, 4);
  ASSERT_EQ(again.tuning.size(), 4U);
  for (const Comparison& each : {again, counted})
    for (std::size_t trial = 0; trial < 4; ++trial) {
      EXPECT_EQ(each.tuning[trial].mechanism, first.tuning[trial].mechanism);
      EXPECT_EQ(each.tuning[trial].learning_rate, first.tuning[trial].learning_rate);
      EXPECT_EQ(each.tuning[trial].value, first.tuning[trial].value);
      EXPECT_EQ(each.tuning[trial].chosen, first.tuning[trial].chosen);
    }
  for (const char* row : {"softmax", "cog"})
    EXPECT_EQ(counted.plan(row)->learning_rate, first.plan(row)->learning_rate);
  // Neither another version's nor a damaged one is taken; where all is made anew, none is.
  EXPECT_EQ(stored(RunStore(temporary.path() / "models", "2")).first, 0);
  EXPECT_EQ(stored(RunStore(temporary.path() / "models", "1", true)).first, 0);
  write_file(std::filesystem::directory_iterator(temporary.path() / "models/trials")->path(), "{");
  EXPECT_EQ(stored(store).first, 3);
}

}  // namespace
}  // namespace cogwheel::compare
