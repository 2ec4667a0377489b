// What a training run measures, shows and reports of its model between steps.
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/distributed/ranks.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/runs/mean_in_parts.h"
#include "cogwheel/runs/training/divided_weights.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/runs/training/weight_average.h"

namespace cogwheel::runs {
namespace {

// For who uses the model elsewhere than in steps: the whole parameters have the room of gradients.
DividedWeights::WholeInModel whole_weights(const DividedWeights& divided, torch::nn::Module& model,
                                           Optimizer& optimizer, const std::string& what) {
  if (!divided.empty()) optimizer.zero_gradients();
  return {divided, model, what};
}

}  // namespace

MeasuredValues TrainingRun::measured(EvaluationPart part, nn::StatisticsOfHeads* heads) {
  take_all_weights();
  const auto start = WallClock::now();
  const torch::NoGradGuard no_grad;
  const WeightAverage::InModel averaged(average_.get());
  const auto whole = whole_weights(*divided_, *model_, *optimizer_, "weights that are measured");
  const PartsOfRanks shared(*ranks_);
  MeasuredValues values = task_->evaluate(*model_, config_.training, part, heads);
  progress_.evaluation_seconds += seconds_since(start);
  for (const Measure& measure : task_->description().measures) {
    if (const double* value = find_value(values, measure.name))
      expect_finite(*value, measure.title, progress_.steps_done);
    else if (part == EvaluationPart::whole || !measure.at_end_only)
      throw std::logic_error(expected_got("task " + task_->description().name, "a value of " + measure.name, "none"));
  }
  return values;
}

Inspection TrainingRun::inspect(std::uint64_t seed) {
  take_all_weights();
  const WeightAverage::InModel averaged(average_.get());
  const auto whole = whole_weights(*divided_, *model_, *optimizer_, "weights that are inspected");
  return task_->inspect(*model_, seed, nullptr);
}

MeasuredValues TrainingRun::measure() { return progress_.last_measured = measured(EvaluationPart::whole); }

void TrainingRun::evaluate(StepReport& report) {
  const TaskDescription& description = task_->description();
  progress_.last_measured = report.measured = measured(EvaluationPart::curve, &report.heads);
  if (const double* value = find_value(report.measured, description.decisive().name))
    if (!progress_.best || description.decisive().better(*value, *progress_.best)) progress_.best = *value;
  if (progress_.steps_done < config_.training.steps) return;
  const bool more = std::any_of(description.measures.begin(), description.measures.end(),
                                [](const Measure& measure) { return measure.at_end_only; });
  if (more || task_->data(config_.model, config_.training).curve_is_part())
    report.final_measured = progress_.last_measured = measured(EvaluationPart::whole);
}

StepReport TrainingRun::make_report() {
  const double recent_seconds = progress_.seconds - progress_.seconds_at_report;
  const auto recent_tokens = static_cast<double>(progress_.tokens - progress_.tokens_at_report);
  const StepReport report{.step = progress_.steps_done,
                          .steps = config_.training.steps,
                          .tokens = progress_.tokens,
                          .seconds = progress_.seconds,
                          .train_loss = progress_.loss_sum / static_cast<double>(progress_.loss_count),
                          .learning_rate = runs::learning_rate(config_.training, progress_.steps_done - 1),
                          .tokens_per_second = recent_seconds > 0 ? recent_tokens / recent_seconds : 0,
                          .gradient_norm = progress_.norm_sum / static_cast<double>(progress_.loss_count),
                          .update_over_weight = update_over_weight_,
                          .waiting_seconds = progress_.waiting_seconds,
                          .exposed_communication_seconds = progress_.exchange_seconds,
                          .slowest_rank_seconds = progress_.slowest_seconds,
                          .phase = phase_of(progress_.steps_done - 1).name};
  progress_.loss_sum = progress_.norm_sum = progress_.waiting_seconds = 0;
  progress_.exchange_seconds = progress_.slowest_seconds = 0;
  progress_.loss_count = 0;
  progress_.seconds_at_report = progress_.seconds;
  progress_.tokens_at_report = progress_.tokens;
  return report;
}

void TrainingRun::continue_prompts(const TrainingHooks& hooks) {
  if (!hooks.sample && divided_->empty()) return;
  const torch::NoGradGuard no_grad;
  const WeightAverage::InModel averaged(average_.get());
  const auto whole = whole_weights(*divided_, *model_, *optimizer_, "weights that continue a prompt");
  if (!hooks.sample) return;
  const std::vector<std::string>& prompts = config_.training.prompts;
  for (std::size_t index = 0; index < prompts.size(); ++index)
    hooks.sample({progress_.steps_done, prompts[index],
                  task_->continued(*model_, prompts[index], nn::derived_seed(config_.training.seed, index))});
}

}  // namespace cogwheel::runs
