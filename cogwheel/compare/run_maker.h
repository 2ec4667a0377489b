// Makes the trials and runs of a comparison, one at a time, each in its folder.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::compare {

// How the caller follows the work and stops it.
struct ComparisonHooks {
  std::function<void(const std::string& label, const runs::StepReport&)> progress;
  std::function<void(const std::string&)> line;
  const std::atomic<bool>* stop = nullptr;  // checked between steps
  std::string resume = {};                  // the command that goes on; empty: that of the comparison itself
};

class RunMaker {
 public:
  // With a store, which outlives the maker, runs are made in it, or taken from it where they are finished, and the
  // folder has links to them.
  RunMaker(RowTasks tasks, ComparisonFolder folder, ComparisonHooks hooks, RunStore* store)
      : tasks_(std::move(tasks)), folder_(std::move(folder)), hooks_(std::move(hooks)), store_(store) {}

  // A trial of a learning rate, taken from the store where it is there; none where it was stopped.
  std::optional<TuningTrial> try_rate(const Comparison& comparison, const MechanismPlan& plan, double rate) const;
  // A run; one that a stopped or killed process began goes on from its checkpoint. What fails is told by its status.
  RunResult make_run(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed);

  const RowTasks& tasks() const { return tasks_; }
  const ComparisonFolder& folder() const { return folder_; }
  const ComparisonHooks& hooks() const { return hooks_; }
  // Of the models that were trained here.
  const std::vector<runs::Inspection>& inspections() const { return inspections_; }
  // What was said since the last call, beside being told to the hooks.
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }
  bool asked_to_stop() const { return hooks_.stop != nullptr && hooks_.stop->load(); }

 private:
  RunResult train(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed);
  RunResult train_in(const std::filesystem::path& path, const runs::RunConfig& config, const MechanismPlan& plan,
                     std::int64_t seed);

  RowTasks tasks_;
  ComparisonFolder folder_;
  ComparisonHooks hooks_;
  RunStore* store_;
  void say(const std::string& line);

  std::vector<runs::Inspection> inspections_ = {};
  std::vector<std::string> lines_ = {};
};

// What a trial and a run are called in lines of progress.
std::string trial_label(const TuningTrial& trial);
std::string run_label(const std::string& mechanism, std::int64_t seed);
// Why a run is not done that was stopped.
std::string stopped_message(std::int64_t step, std::int64_t steps);

// The rate of the best trial of a row is that of its runs, of equal ones the lowest; where every one diverged or
// failed, the default is as good as any.
void choose_rate(Comparison& comparison, MechanismPlan& plan);

// The trials that the store has, and the learning rates of rows that it has all trials of. Returns how many it has.
std::int64_t take_stored_trials(Comparison& comparison, const RowTasks& tasks, const RunStore& store);

}  // namespace cogwheel::compare
