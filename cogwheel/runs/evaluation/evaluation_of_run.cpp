#include "cogwheel/runs/evaluation/evaluation_of_run.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>

#include "cogwheel/core/error.h"

namespace cogwheel::runs {

EvaluationOfRun evaluate_run(const Task& task, const RunConfig& config, const RunFolder& folder,
                             const ThoroughInspection& options, std::optional<std::int64_t> evaluated,
                             const KeptNumbers& kept) {
  if (options.any() && !task.generates_images())
    throw UsageError(expected_got("evaluate: --samples, --inception, --references",
                                  "none for the task " + task.description().name, "one"));
  const torch::NoGradGuard no_grad;
  const std::shared_ptr<const Task> limited = evaluated ? task.limited(*evaluated) : nullptr;
  const Task& measured = limited ? *limited : task;
  const std::shared_ptr<torch::nn::Module> model = load_model(config, folder);
  EvaluationOfRun evaluation{.config = config,
                             .task = task.description(),
                             .data = task.data(config.model, config.training),  // as large as it is
                             .parameters = parameter_count(config.model)};
  std::error_code problem;
  evaluation.trained_here = std::filesystem::exists(folder.metrics_path(), problem);
  evaluation.data.evaluated_tokens = measured.data(config.model, config.training).evaluated_tokens;
  if (kept.any()) evaluation.narrowing = measured.narrowing_cost(*model, config.training, kept);
  evaluation.measured = measured.evaluate(*model, config.training, EvaluationPart::whole, nullptr);
  const std::uint64_t seed = options.seed.value_or(config.training.seed);
  evaluation.inspection = measured.inspect(*model, seed, &options);
  evaluation.inspection.mechanism = common(config.model).mechanism;
  evaluation.inspection.seed = static_cast<std::int64_t>(seed);
  return evaluation;
}

}  // namespace cogwheel::runs
