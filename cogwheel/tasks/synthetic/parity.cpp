// Whether the ones so far are odd, at every bit of a random string: the smallest problem of tracking a state. A linear
// recurrence needs an eigenvalue of −1 for it, so that gates in 0…1 cannot learn it for every length. Grazzi, Siems,
// Franke, Zela, Hutter and Pontil, "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues" (2024).
#include <utility>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/running_task.h"

namespace cogwheel::tasks::synthetic::parity {
namespace {

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "parity",
      .summary = "say at every bit whether the ones so far are odd",
      .item = "bit",
      .data = "Random bits.",
      .does_better = "tracks parity better",
      .do_better = "track parity better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per bit"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

class Parity : public RunningTask {
 public:
  Parity(const RunningOptions& running, runs::TaskOptions options)
      : RunningTask(describe(), running, std::move(options)) {}

 protected:
  std::int64_t states() const override { return 2; }
  std::string name_of(std::int64_t state) const override { return std::to_string(state); }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<Parity>(*this); }
  std::int64_t next(std::int64_t state, std::int64_t bit) const override { return state ^ bit; }
};

}  // namespace
}  // namespace cogwheel::tasks::synthetic::parity

namespace cogwheel::tasks::synthetic {
runs::TaskEntry parity_task() {
  return {.description = parity::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            runs::TaskOptionReader reader(config.task);
            const RunningOptions running = RunningOptions::read(reader);
            return std::make_shared<parity::Parity>(running, reader.finish());
          },
          .preset =
              [] {
                return sampled_preset("parity", "up to 32 bits, tested up to 128; 2 layers, 2 heads, width 64",
                                      {{"length", std::int64_t{32}}}, 128, 32, 3000);
              }};
}
}  // namespace cogwheel::tasks::synthetic
