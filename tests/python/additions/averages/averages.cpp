// The mean of numbers that are drawn.
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/random.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/averages/averager.h"

namespace cogwheel {
namespace averages {
namespace {

constexpr std::int64_t held_out = 256, numbers = 8;

TaskDescription describe() {
  return {
      .name = "averages",
      .summary = "tell the mean of some numbers",
      .item = "list",
      .data = "Random numbers.",
      .counted = "lists",
      .measures = {{.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "squared error"}}};
}

Batch drawn(std::uint64_t seed, std::uint32_t stream, std::int64_t step, std::int64_t count) {
  NumberedDraws draws(seed, stream, static_cast<std::uint64_t>(step));
  Batch batch{.inputs = at::empty({count, numbers}), .targets = {}, .tokens = count};
  auto values = batch.inputs.accessor<float, 2>();
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t place = 0; place < numbers; ++place) values[row][place] = static_cast<float>(draws.normal());
  batch.targets = batch.inputs.mean(1);
  return batch;
}

class Averages final : public Task {
 public:
  explicit Averages(TaskOptions options, std::int64_t evaluated = held_out)
      : options_(std::move(options)), evaluated_(evaluated) {}

  const TaskDescription& description() const override {
    static const TaskDescription description = describe();
    return description;
  }
  DataFacts data(const ModelOptions&, const TrainingOptions&) const override {
    return {.name = "random numbers",
            .tokenizer = "list",
            .held_out_tokens = held_out,
            .evaluated_tokens = evaluated_,
            .curve_tokens = evaluated_,
            .window = 1};
  }
  RunConfig completed(RunConfig config) const override {
    expect_no_text(config, "");
    check(config.model);
    config.task = options_;
    return config;
  }
  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    holder_of<Averager>(model)->initialize(seed);
  }
  Batch batch(const torch::nn::Module&, const TrainingOptions& training, std::int64_t step) const override {
    return drawn(training.seed, stream_named("mean"), step, training.batch);
  }
  at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t) const override {
    return (holder_of<Averager>(model)->forward(batch.inputs) - batch.targets).square().mean();
  }
  MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions&, EvaluationPart,
                          StatisticsOfHeads*) const override {
    return {{"held_out_loss", loss(model, drawn(0, stream_named("held"), 0, evaluated_), 0).item<double>()}};
  }
  Inspection inspect(torch::nn::Module&, std::uint64_t, const ThoroughInspection*) const override { return {}; }
  std::shared_ptr<const Task> limited(std::int64_t evaluated) const override {
    return std::make_shared<Averages>(options_, std::min(evaluated, evaluated_));
  }
  std::shared_ptr<const Task> for_tuning() const override { return std::make_shared<Averages>(options_); }

 private:
  TaskOptions options_;
  std::int64_t evaluated_;
};

}  // namespace
}  // namespace averages

TaskEntry averages_task() {
  return {.description = averages::describe(),
          .make = [](const RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const Task> {
            return std::make_shared<averages::Averages>(TaskOptionReader(config.task).finish());
          },
          .preset =
              [] {
                Preset made{.name = "averages",
                            .summary = "eight numbers",
                            .model = AveragerOptions{},
                            .training = {},
                            .evaluated_tokens = 256,
                            .seconds = 10,
                            .steps = 60,
                            .attention = {"softmax", "cog"},
                            .task = {"averages", {}}};
                made.training.batch = 16;
                return made;
              }};
}

}  // namespace cogwheel
