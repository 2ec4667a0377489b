// The mean of numbers that are drawn.
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/random.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/averages/averager.h"

namespace cogwheel::tasks::averages {
namespace {

constexpr std::int64_t held_out = 256, numbers = 8;

runs::TaskDescription describe() {
  return {
      .name = "averages",
      .summary = "tell the mean of some numbers",
      .item = "list",
      .data = "Random numbers.",
      .counted = "lists",
      .measures = {{.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "squared error"}}};
}

runs::Batch drawn(std::uint64_t seed, std::uint32_t stream, std::int64_t step, std::int64_t count) {
  NumberedDraws draws(seed, stream, static_cast<std::uint64_t>(step));
  runs::Batch batch{.inputs = at::empty({count, numbers}), .targets = {}, .tokens = count};
  auto values = batch.inputs.accessor<float, 2>();
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t place = 0; place < numbers; ++place) values[row][place] = static_cast<float>(draws.normal());
  batch.targets = batch.inputs.mean(1);
  return batch;
}

class Averages final : public runs::Task {
 public:
  explicit Averages(runs::TaskOptions options, std::int64_t evaluated = held_out)
      : options_(std::move(options)), evaluated_(evaluated) {}

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }
  runs::DataFacts data(const runs::ModelOptions&, const runs::TrainingOptions&) const override {
    return {.name = "random numbers",
            .tokenizer = "list",
            .held_out_tokens = held_out,
            .evaluated_tokens = evaluated_,
            .curve_tokens = evaluated_,
            .window = 1};
  }
  runs::RunConfig completed(runs::RunConfig config) const override {
    runs::check(config.model);
    config.task = options_;
    return config;
  }
  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    nn::holder_of<Averager>(model)->initialize(seed);
  }
  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training, std::int64_t step) const override {
    return drawn(training.seed, stream_named("mean"), step, training.batch);
  }
  at::Tensor loss(torch::nn::Module& model, const runs::Batch& batch, std::uint64_t) const override {
    return (nn::holder_of<Averager>(model)->forward(batch.inputs) - batch.targets).square().mean();
  }
  runs::MeasuredValues evaluate(torch::nn::Module& model, const runs::TrainingOptions&, runs::EvaluationPart,
                                nn::StatisticsOfHeads*) const override {
    return {{"held_out_loss", loss(model, drawn(0, stream_named("held"), 0, evaluated_), 0).item<double>()}};
  }
  runs::Inspection inspect(torch::nn::Module&, std::uint64_t, const runs::ThoroughInspection*) const override {
    return {};
  }
  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    return std::make_shared<Averages>(options_, std::min(evaluated, evaluated_));
  }
  std::shared_ptr<const runs::Task> for_tuning() const override { return std::make_shared<Averages>(options_); }

 private:
  runs::TaskOptions options_;
  std::int64_t evaluated_;
};

}  // namespace

runs::TaskEntry averages_task() {
  return {.description = describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            return std::make_shared<Averages>(runs::TaskOptionReader(config.task).finish());
          },
          .preset =
              [] {
                runs::Preset made{.name = "averages",
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

}  // namespace cogwheel::tasks::averages
