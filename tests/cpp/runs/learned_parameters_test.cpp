// Parameters that stay, and those that begin to learn later.
#include "cogwheel/runs/training/learned_parameters.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/training/step_times.h"
#include "runs/decorated_task.h"
#include "runs/tiny_run.h"
#include "support/usage_error_of.h"

namespace cogwheel::runs::learned_parameters_test {
namespace {

// Its first steps learn the embedding alone, of another loss.
class TwoPhases : public DecoratedTask {
 public:
  using DecoratedTask::DecoratedTask;
  std::vector<Phase> phases() const override { return {{"first", 0}, {"", 6}}; }
  bool learns(const torch::nn::Module&, const Phase& phase, const std::string& name) const override {
    return phase.name.empty() || name == "token_embedding";
  }
  at::Tensor loss_in(const Phase& phase, torch::nn::Module& model, const Batch& batch,
                     std::uint64_t seed) const override {
    const at::Tensor loss = DecoratedTask::loss(model, batch, seed);
    return phase.name.empty() ? loss : loss * 1000;
  }
};

TrainingRun two_phases(TrainingOptions training = tiny_training()) {
  return {tiny_model(), training, std::make_shared<TwoPhases>(tiny_task())};
}

TEST(LearnedParameters, ArePatternsOfNamesAndWhatIsInThem) {
  TrainingRun run = tiny_run();
  const auto names_without = [&](const std::vector<std::string>& frozen) {
    TrainingOptions training = tiny_training();
    training.frozen = frozen;
    std::vector<std::string> names;
    for (const LearnedParameter& each : learned_parameters(*run.model(), training, run.task()))
      names.push_back(each.name);
    return names;
  };
  const std::size_t all = names_without({}).size();
  EXPECT_EQ(all, run.model()->named_parameters().size());
  EXPECT_EQ(names_without({"layers.0"}).size(), all - 6);
  EXPECT_EQ(names_without({"layers.?.feed_forward", "token_embedding"}).size(), all - 5);
  EXPECT_EQ(usage_error_of([&] { names_without({"layers.9"}); }).find("training.frozen: expected a part of the model"),
            0U);
  EXPECT_EQ(usage_error_of([&] { names_without({"*"}); }),
            "training.frozen: expected parameters left to learn from the first step on, got none");
}

TEST(LearnedParameters, OfAPhaseAloneChangeInIt) {
  TrainingRun run = two_phases();
  std::map<std::string, at::Tensor> before;
  for (const auto& parameter : run.model()->named_parameters())
    before[parameter.key()] = parameter.value().detach().clone();
  const auto changed = [&] {
    std::set<std::string> names;
    for (const auto& parameter : run.model()->named_parameters())
      if (!parameter.value().equal(before[parameter.key()])) names.insert(parameter.key());
    return names;
  };
  for (int step = 0; step < 6; ++step) run.step();
  EXPECT_EQ(changed(), std::set<std::string>{"token_embedding"});
  run.step();
  EXPECT_EQ(changed().size(), before.size());
}

// Its moments count from its first step, as if there had been none before.
TEST(LearnedParameters, BeginAsIfTheyWereFresh) {
  const TrainingOptions options;
  const auto parameters = [] {
    torch::manual_seed(1);
    return std::vector<std::pair<std::string, at::Tensor>>{{"first", torch::randn({4, 3}).requires_grad_()},
                                                           {"later", torch::randn({5, 2}).requires_grad_()}};
  };
  const auto late = parameters(), fresh = parameters();
  Optimizer optimizer(late, options, {}, {{"later", 3}}), alone({fresh[1]}, options);
  for (std::uint64_t step = 0; step < 6; ++step) {
    torch::manual_seed(10 + step);
    for (const auto& [name, value] : late)
      value.mutable_grad() = step < 3 && name == "later" ? at::Tensor() : torch::randn(value.sizes());
    fresh[1].second.mutable_grad() = late[1].second.grad();
    EXPECT_GT(optimizer.clip_gradients(), 0);
    if (step % 2 == 0)
      optimizer.step(1e-2);
    else
      optimizer.measured_step(1e-2);
    if (step >= 3)
      alone.step(1e-2);
    else
      EXPECT_TRUE(late[1].second.equal(fresh[1].second));
  }
  EXPECT_TRUE(late[1].second.equal(fresh[1].second));
}

// A speed is that of the phase that most steps are of, also where the steps are not known yet.
TEST(LearnedParameters, StepsOfTheLastPhaseAreTimed) {
  class Watched : public TwoPhases {
   public:
    using TwoPhases::TwoPhases;
    mutable std::set<std::string> seen;
    at::Tensor loss_in(const Phase& phase, torch::nn::Module& model, const Batch& batch,
                       std::uint64_t seed) const override {
      seen.insert(phase.name);
      return TwoPhases::loss_in(phase, model, batch, seed);
    }
  };
  TrainingOptions training = tiny_training();
  training.steps = 1;
  const auto task = std::make_shared<Watched>(tiny_task());
  EXPECT_GT(measure_steps_per_second(tiny_model(), training, task, 0), 0);
  EXPECT_EQ(task->seen, std::set<std::string>{""});
}

TEST(LearnedParameters, PhasesAreToldApartInReports) {
  TrainingOptions training = tiny_training();
  training.report_every = 4;
  training.spike_deviations = 50;  // the loss falls to a thousandth between them, and may rise as far
  TrainingRun run = two_phases(training);
  std::vector<StepReport> reports;
  EXPECT_EQ(run.train({.report = [&](const StepReport& report) { reports.push_back(report); }}),
            TrainingStatus::finished);
  ASSERT_GE(reports.size(), 3U);
  EXPECT_EQ(reports[0].phase, "first");
  EXPECT_GT(reports[0].train_loss, 1000);
  EXPECT_EQ(reports[1].phase, "");  // of steps 7 and 8, without 5 and 6
  EXPECT_LT(reports[1].train_loss, 10);
  EXPECT_NE(metrics_line(reports[0]).find("\"phase\":\"first\""), std::string::npos);
  EXPECT_EQ(metrics_line(reports[1]).find("phase"), std::string::npos);
}

}  // namespace
}  // namespace cogwheel::runs::learned_parameters_test
