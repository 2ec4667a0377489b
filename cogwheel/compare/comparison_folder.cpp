#include "cogwheel/compare/comparison_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "cogwheel/attention/authoring/authoring.h"
#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/report/page.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/compare/work_queue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/inspection_json.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::compare {
namespace fs = std::filesystem;
namespace {

const std::vector<std::string> comparison_files{"results.json", "results.csv", "report.html", runs::text_file};

fs::path trained_path(const fs::path& comparison) { return comparison / runs::trained_folder; }

bool is_named_like_a_run(const std::string& name) {
  constexpr std::string_view before_seed = "-seed-";
  const std::size_t place = name.rfind(before_seed);
  return place != std::string::npos && place > 0 &&
         name.find_first_not_of("0123456789", place + before_seed.size()) == std::string::npos;
}

// Folders below trained/ that are named like runs, not other files that someone may have put there: whether they are
// runs, their markers tell. Or the links to runs of a store.
std::vector<fs::path> run_folders(const fs::path& comparison, bool links) {
  std::vector<fs::path> folders;
  std::error_code problem;
  fs::directory_iterator entries(trained_path(comparison), problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem)) {
    const fs::path& path = entries->path();
    std::error_code unread;
    if (!is_named_like_a_run(path.filename().string()) || entries->is_symlink(unread) != links) continue;
    if (links ? folder_kind(fs::read_symlink(path, unread).parent_path()) == stored_run_kind
              : entries->is_directory(unread))
      folders.push_back(path);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Removes the folder too, unless it holds other files.
void remove_run(const fs::path& folder) {
  runs::remove_run_files(folder);
  std::error_code problem;
  if (std::distance(fs::directory_iterator(folder), {}) > 1) return;
  fs::remove(folder / folder_marker, problem);
  fs::remove(folder, problem);
}

}  // namespace

ComparisonFolder ComparisonFolder::create(const fs::path& path, bool overwrite) {
  ComparisonFolder folder(path);
  folder.lock_ = take_folder(path, runs::comparison_kind, overwrite);
  const std::vector<fs::path> runs = run_folders(path, false), links = run_folders(path, true);
  // All must be this program's and unlocked before the first is removed.
  std::vector<std::shared_ptr<const FolderLock>> locks;
  for (const fs::path& run : runs) locks.push_back(take_folder(run, runs::run_kind, true));
  for (const fs::path& run : runs) remove_run(run);
  std::error_code problem;
  for (const fs::path& link : links) fs::remove(link, problem);
  if (fs::is_directory(fs::symlink_status(trained_path(path), problem)))
    fs::remove(trained_path(path), problem);  // kept unless empty
  remove_work(path);
  remove_files(path, comparison_files);
  return folder;
}

ComparisonFolder ComparisonFolder::join(const fs::path& path) {
  if (path.empty()) throw UsageError(expected_got("comparison", "the folder of a comparison", ""));
  ComparisonFolder folder(path);
  std::error_code problem;
  if (!fs::exists(path / "results.json", problem))
    throw Error(expected_got(
        path.string(), "the folder of a comparison",
        folder_kind(path) == runs::run_kind ? "a run, which `cogwheel resume` continues" : "no results.json in it"));
  return folder;
}

ComparisonFolder ComparisonFolder::resume(const fs::path& path) {
  ComparisonFolder folder = join(path);
  folder.lock_ = std::make_shared<const FolderLock>(path, runs::comparison_kind);
  remove_work(path);
  remove_leftovers(path, comparison_files);
  return folder;
}

std::optional<std::int64_t> evaluated_in_comparison(const fs::path& run) {
  // As it is named, for a run may be a link to one of a store; else where it is.
  std::error_code problem;
  const fs::path named = fs::absolute(run, problem).lexically_normal(), placed = fs::weakly_canonical(run, problem);
  for (const fs::path& path : {named.has_filename() ? named : named.parent_path(), placed}) {
    const fs::path trained = path.parent_path(), comparison = trained.parent_path();
    const fs::path results = comparison / "results.json";
    if (trained.filename() == runs::trained_folder && folder_kind(comparison) == runs::comparison_kind &&
        fs::exists(results, problem))
      return parse_results(read_file(results), results.string()).data.evaluated_tokens;
  }
  return std::nullopt;
}

std::shared_ptr<const runs::Task> task_of_run(const runs::RunConfig& config, const fs::path& run) {
  std::shared_ptr<const runs::Task> task = runs::make_task(config, run);
  const auto evaluated = evaluated_in_comparison(run);
  return evaluated ? task->limited(*evaluated) : task;
}

fs::path run_path(const fs::path& comparison, std::string_view mechanism, std::int64_t seed) {
  return trained_path(comparison) / run_name(mechanism, seed);
}

fs::path ComparisonFolder::run_path(const MechanismPlan& plan, std::int64_t seed) const {
  return compare::run_path(path_, plan.name, seed);
}

void ComparisonFolder::link_run(const MechanismPlan& plan, std::int64_t seed, const fs::path& target) const {
  const fs::path link = run_path(plan, seed);
  make_folder(link.parent_path());
  std::error_code problem;
  if (fs::is_symlink(link, problem)) {
    if (fs::read_symlink(link, problem) == target) return;
    fs::remove(link, problem);
  }
  fs::create_directory_symlink(target, link, problem);
  if (problem) throw Error(expected_got(link.string(), "a link to " + target.string(), problem.message()));
}

Comparison ComparisonFolder::read() const {
  const fs::path results = path_ / "results.json";
  Comparison comparison = parse_results(read_file(results), results.string());
  for (const MechanismPlan& plan : comparison.mechanisms)
    authoring::require_mechanism(plan.mechanism(), plan.definition, results.string() + ": " + plan.name);
  return comparison;
}

void ComparisonFolder::expect_runs_match(const Comparison& comparison, const RowTasks& tasks) const {
  for (const MechanismPlan& plan : comparison.mechanisms)
    for (const std::int64_t seed : comparison.settings.seeds) {
      const fs::path config = run_path(plan, seed) / "config.toml";
      std::error_code problem;
      if (fs::exists(config, problem))
        runs::expect_same(tasks.of(plan.name)->completed(run_config(comparison, plan, seed)),
                          runs::to_json(runs::load_config(config)), config.string());
    }
}

void ComparisonFolder::write_records(const runs::Task& task) const {
  for (const runs::RunFile& record : task.records()) write_file(path_ / record.name, record.content);
}

void ComparisonFolder::write_results(const Comparison& comparison) const {
  write_file(path_ / "results.json", results_to_json(comparison));
}

std::vector<std::string> ComparisonFolder::write_report(const Comparison& comparison,
                                                        std::vector<runs::Inspection> made) const {
  std::vector<runs::Inspection> inspections;
  std::vector<std::string> problems;
  for (const MechanismPlan& plan : comparison.mechanisms)
    for (const std::int64_t seed : comparison.settings.seeds) {
      const auto here = std::find_if(made.begin(), made.end(), [&](const runs::Inspection& inspection) {
        return inspection.mechanism == plan.name && inspection.seed == seed;
      });
      if (here != made.end()) {
        inspections.push_back(std::move(*here));
        continue;
      }
      const fs::path path = run_path(plan, seed) / "inspection.json";
      const RunResult* run = comparison.run(plan.name, seed);
      std::error_code problem;
      if (run == nullptr || run->status != RunStatus::done || !fs::exists(path, problem)) continue;
      try {
        inspections.push_back(runs::parse_inspection(read_file(path), path.string()));
        inspections.back().mechanism = plan.name;  // a run of a store may be of several rows
        inspections.back().seed = seed;
      } catch (const Error& error) {
        problems.push_back(one_line(error.what()));
      }
    }
  write_file(path_ / "results.csv", results_to_csv(comparison));
  write_file(report_path(), report_page(comparison, inspections));
  return problems;
}

}  // namespace cogwheel::compare
