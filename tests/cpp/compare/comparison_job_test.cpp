#include "cogwheel/compare/comparison_job.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "cogwheel/compare/plan/plan.h"
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

}  // namespace
}  // namespace cogwheel::compare
