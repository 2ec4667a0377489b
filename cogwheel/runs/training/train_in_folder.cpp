#include "cogwheel/runs/training/train_in_folder.h"

#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/distributed/ranks.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/run_changes.h"
#include "cogwheel/runs/training/step_lines.h"

namespace cogwheel::runs {
namespace {

// spikes.jsonl: the rows of the batches that sent a run back. It survives the checkpoints that do not know of them.
class Spikes {
 public:
  explicit Spikes(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code problem;
    if (!std::filesystem::exists(path_, problem)) return;
    std::istringstream lines(read_file(path_));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      try {
        rows_.insert(json.at("rows").get<std::pair<std::int64_t, std::int64_t>>());
      } catch (const nlohmann::json::exception&) {
        throw Error(expected_got(path_.string(), "a spike on line " + std::to_string(count_ + 1), line));
      }
      ++count_;
      all_ += line + "\n";
    }
  }

  std::int64_t count() const { return count_; }
  const LeftOutRows& rows() const { return rows_; }

  void add(std::int64_t step, std::pair<std::int64_t, std::int64_t> rows, std::int64_t returned_to,
           const std::string& what) {
    const nlohmann::ordered_json line = {{"step", step}, {"rows", rows}, {"returned_to", returned_to}, {"what", what}};
    all_ += line.dump() + "\n";
    write_file(path_, all_);
    rows_.insert(rows);
    ++count_;
  }

 private:
  std::filesystem::path path_;
  std::string all_;
  LeftOutRows rows_;
  std::int64_t count_ = 0;
};

// What the first rank tells the others after a spike.
constexpr const char *returning = "return", *what_follows = "what follows a spike";

// Calls `save` where a checkpoint of the run is due, with whether it is the best so far; on every rank alike.
void save_when_due(const TrainingRun& run, TrainingHooks& hooks, const std::function<void(bool is_best)>& save) {
  const auto saved_as_best = std::make_shared<std::int64_t>(-1);
  hooks.checkpoint = [&run, save, saved_as_best] {
    if (*saved_as_best != run.steps_done()) save(false);
  };
  if (run.options().keep_best)
    hooks.improved = [&run, save, saved_as_best] {
      save(true);
      *saved_as_best = run.steps_done();
    };
}

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
  const auto save = [&](bool is_best) {
    sync();
    keep_checkpoint(run, folder, is_best);
    if (hooks.checkpoint) hooks.checkpoint();
  };
  TrainingHooks inner;
  inner.stop = hooks.stop;
  save_when_due(run, inner, save);
  inner.report = [&](const StepReport& report) {
    metrics.write(metrics_line(report));
    if (hooks.report) hooks.report(report);
  };
  inner.sample = [&](const ContinuedText& text) {
    if (samples) samples->write(sample_line(text));
    if (hooks.sample) hooks.sample(text);
  };
  return run.train(inner);
}

}  // namespace

TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks) {
  const distributed::Ranks& ranks = run.ranks();
  std::vector<RunChange> changes = changes_until(folder.changes_path(), run.steps_done());
  Spikes spikes(folder.spikes_path());
  run.leave_out(spikes.rows());
  run.take_from_first();
  std::int64_t returned_to = -1;
  for (;;) {
    const TrainingStatus status = train_on(run, folder, hooks, changes);
    if (status != TrainingStatus::spike) return status;
    const bool returns = spikes.count() < run.options().spike_returns;
    ranks.of_first(returns ? returning : "", what_follows);
    if (!returns) return status;
    const std::int64_t step = run.steps_done() + 1;
    const auto rows = run.next_rows();
    // A checkpoint to which the run has returned before may itself be what is wrong: then one before it is taken.
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t before : {any, returned_to}) {
      for (const std::string& line : load_newest(run, folder, changed_keys(changes), before))
        if (hooks.warn) hooks.warn(line);
      if (run.steps_done() != returned_to) break;
    }
    returned_to = run.steps_done();
    changes = changes_until(folder.changes_path(), returned_to);
    // A run that is killed before this line meets the spike again.
    spikes.add(step, rows, returned_to, run.problem());
    run.leave_out(spikes.rows());
    run.take_from_first();
    if (hooks.warn)
      hooks.warn("spike at " + run.problem() + ": back to step " + std::to_string(run.steps_done()) +
                 ", without that batch");
    if (hooks.returned) hooks.returned(run.steps_done());
  }
}

TrainingStatus train_beside_first(TrainingRun& run, const std::atomic<bool>* stop) {
  run.take_from_first();
  for (;;) {
    if (run.steps_done() == 0) run.help_to_save();
    TrainingHooks hooks{.stop = stop};
    save_when_due(run, hooks, [&](bool) { run.help_to_save(); });
    const TrainingStatus status = run.train(hooks);
    if (status != TrainingStatus::spike || run.ranks().of_first("", what_follows) != returning) return status;
    run.take_from_first();
  }
}

}  // namespace cogwheel::runs
