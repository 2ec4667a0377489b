#include "cogwheel/compare/work_queue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/run_maker.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/build_id.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/runs/json_fields.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::compare {
namespace fs = std::filesystem;
namespace {

constexpr const char *work_folder = "work", *list_file = "queue.json", *made_file = "result.json",
                     *process_file = "process";
constexpr std::string_view item_kind = "work item";

// queue.json.
struct Record {
  std::int64_t schema = 1;
  std::string created = {};
  std::int64_t process = 0;
  WorkTerms terms = {};
  std::vector<WorkItem> items = {};
};

constexpr auto fields(const Record&) {
  return std::tuple{runs::field("schema", &Record::schema), runs::field("created", &Record::created),
                    runs::field("process", &Record::process), runs::field("terms", &Record::terms),
                    runs::field("items", &Record::items)};
}

fs::path queue_path(const fs::path& comparison) { return comparison / work_folder / list_file; }

std::vector<fs::path> item_folders(const fs::path& comparison) {
  std::vector<fs::path> folders;
  std::error_code problem;
  fs::directory_iterator entries(comparison / work_folder, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem))
    if (folder_kind(entries->path()) == item_kind) folders.push_back(entries->path());
  return folders;
}

}  // namespace

static constexpr auto fields(const WorkTerms&) {
  return std::tuple{runs::field("build", &WorkTerms::build), runs::field("instructions", &WorkTerms::instructions),
                    runs::unless_empty("store", &WorkTerms::store),
                    runs::unless_empty("store_version", &WorkTerms::store_version),
                    runs::field("retrain", &WorkTerms::retrain)};
}

static constexpr auto fields(const WorkItem&) {
  return std::tuple{runs::field("mechanism", &WorkItem::mechanism), runs::field("rate", &WorkItem::rate),
                    runs::field("seed", &WorkItem::seed), runs::field("cost", &WorkItem::cost)};
}

std::string WorkItem::name() const {
  return rate ? fmt::format("{}-rate-{}", name_in_path(mechanism), *rate)
              : fmt::format("{}-seed-{}", name_in_path(mechanism), seed);
}

std::string WorkItem::label() const {
  return rate ? trial_label({.mechanism = mechanism, .learning_rate = *rate}) : run_label(mechanism, seed);
}

void WorkClaim::keep(const TuningTrial& trial) const { write_file(folder_ / made_file, trial_to_json(trial)); }

void WorkClaim::keep(const RunResult& result) const { write_file(folder_ / made_file, run_to_json(result)); }

WorkTerms terms_here() { return {.build = build_id(), .instructions = std::string(chosen_isa())}; }

WorkQueue WorkQueue::open(const fs::path& comparison, WorkTerms terms, std::vector<WorkItem> items) {
  expect_locks(comparison);
  WorkQueue queue(comparison, std::move(terms), std::move(items));
  make_folder(comparison / work_folder);
  std::error_code problem;
  for (const fs::path& folder : item_folders(comparison)) fs::remove(folder / made_file, problem);
  const Record record{.created = utc_now(), .process = ::getpid(), .terms = queue.terms_, .items = queue.items_};
  queue.text_ = runs::write_json(record).dump(1) + "\n";
  write_file(queue_path(comparison), queue.text_);
  return queue;
}

WorkQueue WorkQueue::join(const fs::path& comparison) {
  const fs::path file = queue_path(comparison);
  std::error_code problem;
  if (!fs::exists(file, problem))
    throw Error(expected_got(comparison.string(), "a comparison that is being made with --workers", "none"));
  const std::string text = read_file(file);
  Record record;
  try {
    runs::read_json(nlohmann::ordered_json::parse(text), "queue", record);
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(file.string(), "JSON", "none"));
  }
  const WorkTerms here = terms_here();
  const auto expect = [&](const char* what, const std::string& there, const std::string& own) {
    if (there != own) throw Error(expected_got(fmt::format("{}: {}", comparison.string(), what), there, own));
  };
  expect("the build of cogwheel", record.terms.build, here.build);
  expect("instructions", record.terms.instructions, here.instructions);
  WorkQueue queue(comparison, std::move(record.terms), std::move(record.items));
  queue.text_ = text;
  if (!queue.is_open())
    throw Error(expected_got(comparison.string(), "a comparison that is being made with --workers",
                             "one whose process has ended; --resume goes on"));
  return queue;
}

fs::path WorkQueue::folder_of(const WorkItem& item) const { return comparison_ / work_folder / item.name(); }

std::optional<WorkClaim> WorkQueue::claim(const WorkItem& item) const {
  if (has_result(item)) return std::nullopt;
  struct Claimed {};
  const fs::path folder = folder_of(item);
  make_folder(folder);
  try {
    auto lock = std::make_unique<FolderLock>(folder, item_kind, [] { throw Claimed(); });
    if (has_result(item)) return std::nullopt;
    write_file(folder / process_file, std::to_string(::getpid()) + "\n");
    return WorkClaim(folder, std::move(lock));
  } catch (const Claimed&) {
    return std::nullopt;
  }
}

bool WorkQueue::is_claimed(const WorkItem& item) const { return is_locked(folder_of(item)); }

std::int64_t WorkQueue::last_process(const WorkItem& item) const {
  std::error_code problem;
  const fs::path file = folder_of(item) / process_file;
  if (!fs::exists(file, problem)) return 0;
  const std::string text = read_file(file);
  return parse_number<std::int64_t>(file.string(), text.substr(0, text.find('\n')), {0, std::int64_t{1} << 40});
}

bool WorkQueue::has_result(const WorkItem& item) const {
  std::error_code problem;
  return fs::exists(folder_of(item) / made_file, problem);
}

std::optional<TuningTrial> WorkQueue::trial(const WorkItem& item) const {
  if (!has_result(item)) return std::nullopt;
  const fs::path file = folder_of(item) / made_file;
  TuningTrial trial = parse_trial(read_file(file), file.string());
  trial.mechanism = item.mechanism;
  return trial;
}

std::optional<RunResult> WorkQueue::run(const WorkItem& item, const runs::TaskDescription& task) const {
  if (!has_result(item)) return std::nullopt;
  const fs::path file = folder_of(item) / made_file;
  return parse_run(read_file(file), file.string(), task);
}

bool WorkQueue::is_open() const {
  if (!is_locked(comparison_)) return false;
  try {
    return read_file(queue_path(comparison_)) == text_;
  } catch (const Error&) {  // removed
    return false;
  }
}

void WorkQueue::close() const {
  std::error_code problem;
  fs::remove(queue_path(comparison_), problem);
}

void remove_work(const fs::path& comparison) {
  std::error_code problem;
  fs::remove(queue_path(comparison), problem);
  for (const fs::path& folder : item_folders(comparison)) {
    for (const char* file : {made_file, process_file, folder_marker.data()}) fs::remove(folder / file, problem);
    fs::remove(folder, problem);  // unless something else is in it
  }
  fs::remove(comparison / work_folder, problem);
}

std::vector<WorkItem> items_to_do(const Comparison& comparison, const std::map<std::string, double>& steps_per_second) {
  const bool measured = std::ranges::all_of(
      comparison.mechanisms, [&](const MechanismPlan& plan) { return steps_per_second.contains(plan.name); });
  std::vector<WorkItem> items;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const double step = measured ? 1 / steps_per_second.at(plan.name) : static_cast<double>(plan.parameters);
    for (const double rate : trial_rates(untuned_rate(comparison, plan), comparison.settings.tune))
      if (!comparison.is_tried(plan.name, rate))
        items.push_back({.mechanism = plan.name, .rate = rate, .cost = step * static_cast<double>(trial_steps(plan))});
    for (const std::int64_t seed : comparison.settings.seeds)
      if (comparison.is_to_do(plan.name, seed))
        items.push_back({.mechanism = plan.name, .seed = seed, .cost = step * static_cast<double>(plan.steps)});
  }
  // Trials first, for runs wait for them.
  std::ranges::stable_sort(items, [](const WorkItem& a, const WorkItem& b) {
    return std::pair(!a.rate, -a.cost) < std::pair(!b.rate, -b.cost);
  });
  return items;
}

}  // namespace cogwheel::compare
