#include "cogwheel/runs/training/train_in_folder.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/run_changes.h"
#include "cogwheel/runs/training/step_lines.h"

namespace cogwheel::runs {
namespace {

// spikes.jsonl: the batches that sent a run back. It survives the checkpoints that do not know of them.
class Spikes {
 public:
  explicit Spikes(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code problem;
    if (!std::filesystem::exists(path_, problem)) return;
    std::istringstream lines(read_file(path_));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || !json.contains("batch") || !json["batch"].is_number_integer())
        throw Error(expected_got(path_.string(), "a spike on line " + std::to_string(count_ + 1), line));
      batches_.insert(json["batch"].get<std::int64_t>());
      ++count_;
      all_ += line + "\n";
    }
  }

  std::int64_t count() const { return count_; }
  const std::set<std::int64_t>& batches() const { return batches_; }

  void add(std::int64_t step, std::int64_t batch, const std::string& what) {
    const nlohmann::ordered_json line = {{"step", step}, {"batch", batch}, {"what", what}};
    all_ += line.dump() + "\n";
    write_file(path_, all_);
    batches_.insert(batch);
    ++count_;
  }

 private:
  std::filesystem::path path_;
  std::string all_;
  std::set<std::int64_t> batches_;
  std::int64_t count_ = 0;
};

// Until the end, a stop or a spike.
TrainingStatus train_on(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks,
                        const std::vector<RunChange>& changes) {
  const std::int64_t step = run.steps_done();
  expect_reports(folder.metrics_path(), step, reported_steps(run.configuration(), changes, step));
  StepLines metrics(folder.metrics_path(), step);
  std::optional<StepLines> samples;
  if (run.options().sample_every > 0) samples.emplace(folder.samples_path(), step);
  const auto sync = [&] {
    metrics.sync();
    if (samples) samples->sync();
  };
  // Saved before the first step, so that there is always a good state to return to.
  if (step == 0) keep_checkpoint(run, folder);
  std::int64_t saved = step;
  const auto save = [&] {
    sync();
    keep_checkpoint(run, folder);
    saved = run.steps_done();
    if (hooks.checkpoint) hooks.checkpoint();
  };
  TrainingHooks inner;
  inner.stop = hooks.stop;
  inner.checkpoint = save;
  inner.report = [&](const StepReport& report) {
    metrics.write(metrics_line(report));
    if (hooks.report) hooks.report(report);
  };
  inner.sample = [&](const ContinuedText& text) {
    if (samples) samples->write(sample_line(text));
    if (hooks.sample) hooks.sample(text);
  };
  if (run.options().keep_best)
    inner.improved = [&] {
      if (saved != run.steps_done()) save();
      keep_as_best(folder);
    };
  return run.train(inner);
}

}  // namespace

TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks) {
  const std::vector<RunChange> changes = read_changes(folder.changes_path());
  Spikes spikes(folder.spikes_path());
  run.leave_out(spikes.batches());
  for (;;) {
    const TrainingStatus status = train_on(run, folder, hooks, changes);
    if (status != TrainingStatus::spike || spikes.count() >= run.options().spike_returns) return status;
    spikes.add(run.steps_done() + 1, run.next_batch(), run.problem());
    for (const std::string& line : load_newest(run, folder, changed_keys(changes)))
      if (hooks.warn) hooks.warn(line);
    run.leave_out(spikes.batches());
    if (hooks.warn)
      hooks.warn("spike at " + run.problem() + ": back to step " + std::to_string(run.steps_done()) +
                 ", without that batch");
    if (hooks.returned) hooks.returned(run.steps_done());
  }
}

}  // namespace cogwheel::runs
