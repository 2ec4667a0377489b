// A task of which more is better, with an answer at every bit.
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::tasks::synthetic {
namespace {

const runs::TaskDescription& describe_majority() {
  static const runs::TaskDescription description{
      .name = "majority",
      .summary = "say at every bit whether most so far are ones",
      .item = "bit",
      .data = "Random bits.",
      .measures = {{.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false},
                   {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per bit"}}};
  return description;
}

class Majority : public SampledTask {
 public:
  explicit Majority(const runs::TaskOptions& options) : SampledTask(runs::TaskOptionReader(options).finish()) {}
  const runs::TaskDescription& description() const override { return describe_majority(); }

 protected:
  std::int64_t vocabulary() const override { return 2; }
  std::string label(Token token) const override { return std::to_string(token); }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<Majority>(*this); }
  Difficulty difficulty(std::int64_t context) const override { return {"length", context, context}; }
  std::int64_t tokens(std::int64_t length) const override { return length; }
  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override {
    std::int64_t ones = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto place = static_cast<std::size_t>(i);
      ones += sequence.inputs[place] = draws.at(i) & 1;
      sequence.targets[place] = 2 * ones > i + 1 ? 1 : 0;
    }
  }
};

}  // namespace

runs::TaskEntry majority_task() {
  return {describe_majority(),
          [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            return std::make_shared<Majority>(config.task);
          }};
}

}  // namespace cogwheel::tasks::synthetic
