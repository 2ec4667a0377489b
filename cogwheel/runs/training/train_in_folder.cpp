#include "cogwheel/runs/training/train_in_folder.h"

#include "cogwheel/runs/training/metrics.h"

namespace cogwheel::runs {

TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks) {
  const std::int64_t step = run.steps_done();
  expect_reports(folder.metrics_path(), step, reported_steps(run.options(), step));
  MetricsWriter metrics(folder.metrics_path(), step);
  const auto save = [&] { run.save(folder.checkpoint_path()); };
  // Saved before the first step, so that there is always a good state to return to.
  if (step == 0) save();
  return run.train({.report =
                        [&](const StepReport& report) {
                          metrics.write(report);
                          if (hooks.report) hooks.report(report);
                        },
                    .checkpoint =
                        [&] {
                          metrics.sync();
                          save();
                          if (hooks.checkpoint) hooks.checkpoint();
                        },
                    .stop = hooks.stop});
}

}  // namespace cogwheel::runs
