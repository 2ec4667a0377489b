#include "cogwheel/compare/work_queue.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <tuple>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/run_maker.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/build_id.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/layers/matrix_product_library.h"
#include "cogwheel/runs/json_fields.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::compare {
namespace fs = std::filesystem;
namespace {

constexpr const char *work_folder = "work", *queue_file = "queue.json", *item_result_file = "result.json",
                     *process_file = "process", *lines_file = "lines.txt";
constexpr std::string_view items_kind = "work queue", item_kind = "work item";

fs::path queue_path(const fs::path& comparison) { return comparison / work_folder / queue_file; }

// Which no other queue has, of whatever process and time.
std::string new_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

static constexpr auto fields(const WorkTerms&) {
  return std::tuple{runs::field("build", &WorkTerms::build),
                    runs::field("instructions", &WorkTerms::instructions),
                    runs::field("threads", &WorkTerms::threads),
                    runs::field("matrix_products", &WorkTerms::matrix_products),
                    runs::unless_empty("attention_product", &WorkTerms::attention_product),
                    runs::unless_empty("layer_product", &WorkTerms::layer_product),
                    runs::unless_empty("store", &WorkTerms::store),
                    runs::unless_empty("store_version", &WorkTerms::store_version),
                    runs::field("retrain", &WorkTerms::retrain)};
}

static constexpr auto fields(const WorkItem&) {
  return std::tuple{runs::field("mechanism", &WorkItem::mechanism), runs::field("rate", &WorkItem::rate),
                    runs::field("seed", &WorkItem::seed), runs::field("cost", &WorkItem::cost)};
}

static constexpr auto fields(const WorkRecord&) {
  return std::tuple{runs::field("schema", &WorkRecord::schema), runs::field("id", &WorkRecord::id),
                    runs::field("terms", &WorkRecord::terms), runs::field("items", &WorkRecord::items)};
}

std::string WorkItem::name() const {
  return rate ? fmt::format("{}-rate-{}", name_in_path(mechanism), *rate) : run_name(mechanism, seed);
}

std::string WorkItem::label() const {
  return rate ? trial_label({.mechanism = mechanism, .learning_rate = *rate}) : run_label(mechanism, seed);
}

void WorkClaim::keep(const TuningTrial& trial, const std::vector<std::string>& lines) const {
  keep(trial_to_json(trial), lines);
}

void WorkClaim::keep(const RunResult& result, const std::vector<std::string>& lines) const {
  keep(run_to_json(result), lines);
}

void WorkClaim::keep(const std::string& result, const std::vector<std::string>& lines) const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (!text.empty()) write_file(folder_ / lines_file, text);
  write_file(folder_ / item_result_file, result);
}

WorkTerms terms_here(bool multiplies_bfloat16) {
  const std::string build = build_id({"cogwheel", "torch"});
  if (build.empty()) throw Error(expected_got("this build of cogwheel", "an identifier, for --workers", "none"));
  WorkTerms terms{.build = build,
                  .instructions = std::string(chosen_isa()),
                  .threads = at::get_num_threads(),
                  .matrix_products = std::string(ops::matrix_product_library())};
  if (!multiplies_bfloat16) return terms;
  for (const ops::BFloat16Product& each : ops::bfloat16_products())
    (each.where == "attention" ? terms.attention_product : terms.layer_product) = each.product;
  return terms;
}

WorkQueue WorkQueue::open(const fs::path& comparison, WorkTerms terms, std::vector<WorkItem> items) {
  expect_locks(comparison);
  remove_work(comparison);
  WorkQueue queue(comparison, {.id = new_id(), .terms = std::move(terms), .items = std::move(items)});
  const fs::path folder = comparison / work_folder / queue.record_.id;
  make_folder(folder);
  const FolderLock marked(folder, items_kind);
  write_file(queue_path(comparison), runs::write_json(queue.record_).dump(1) + "\n");
  return queue;
}

WorkQueue WorkQueue::join(const fs::path& comparison) {
  const fs::path file = queue_path(comparison);
  const auto none = [&](const std::string& got) {
    return Error(expected_got(comparison.string(), "a comparison that is being made with --workers", got));
  };
  std::error_code problem;
  if (!fs::exists(file, problem)) throw none("one that a single process makes, or that has ended");
  WorkQueue queue(comparison, {});
  try {
    runs::read_json(nlohmann::ordered_json::parse(read_file(file)), "queue", queue.record_);
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(file.string(), "JSON", "none"));
  }
  const auto expect = [&](const char* what, const auto& there, const auto& here) {
    if (there != here)
      throw Error(expected_got(fmt::format("{}: {}", comparison.string(), what), fmt::format("{}", there),
                               fmt::format("{}", here)));
  };
  const WorkTerms& there = queue.terms();
  const bool multiplies_bfloat16 = !there.attention_product.empty();
  if (multiplies_bfloat16) {
    ops::take_product("attention", there.attention_product);
    ops::take_product("layers", there.layer_product);
  }
  const WorkTerms here = terms_here(multiplies_bfloat16);
  expect("the format of its work", queue.record_.schema, WorkRecord().schema);
  expect("the build of cogwheel", there.build, here.build);
  expect("instructions", there.instructions, here.instructions);
  expect("the library of matrix products", there.matrix_products, here.matrix_products);
  expect("products of bfloat16 numbers in attention", there.attention_product, here.attention_product);
  expect("products of bfloat16 numbers in layers", there.layer_product, here.layer_product);
  if (!queue.is_open()) throw none("one whose process has ended; --resume goes on");
  return queue;
}

fs::path WorkQueue::folder_of(const WorkItem& item) const {
  return comparison_ / work_folder / record_.id / item.name();
}

std::optional<WorkClaim> WorkQueue::claim(const WorkItem& item) const {
  if (has_result(item)) return std::nullopt;
  struct Claimed {};
  const fs::path folder = folder_of(item);
  make_folder(folder);
  try {
    auto lock = std::make_unique<FolderLock>(folder, item_kind, [] { throw Claimed(); });
    if (has_result(item)) return std::nullopt;
    remove_leftovers(folder, {item_result_file, process_file, lines_file});
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
  return fs::exists(folder_of(item) / item_result_file, problem);
}

std::optional<TuningTrial> WorkQueue::trial(const WorkItem& item) const {
  if (!has_result(item)) return std::nullopt;
  const fs::path file = folder_of(item) / item_result_file;
  TuningTrial trial = parse_trial(read_file(file), file.string());
  trial.mechanism = item.mechanism;
  return trial;
}

std::optional<RunResult> WorkQueue::run(const WorkItem& item, const runs::TaskDescription& task) const {
  if (!has_result(item)) return std::nullopt;
  const fs::path file = folder_of(item) / item_result_file;
  return parse_run(read_file(file), file.string(), task);
}

std::vector<std::string> WorkQueue::lines(const WorkItem& item) const {
  std::vector<std::string> lines;
  std::ifstream file(folder_of(item) / lines_file);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

bool WorkQueue::is_open() const {
  std::error_code problem;
  return is_locked(comparison_) && fs::exists(comparison_ / work_folder / record_.id, problem) &&
         fs::exists(queue_path(comparison_), problem);
}

void WorkQueue::close() const {
  std::error_code problem;
  fs::remove(queue_path(comparison_), problem);
}

void remove_work(const fs::path& comparison) {
  std::error_code problem;
  const fs::path work = comparison / work_folder;
  fs::remove(queue_path(comparison), problem);
  if (!fs::is_directory(work, problem)) return;
  remove_leftovers(work, {queue_file});
  std::vector<fs::path> queues;
  for (fs::directory_iterator entries(work, problem); !problem && entries != fs::directory_iterator();
       entries.increment(problem))
    if (folder_kind(entries->path()) == items_kind) queues.push_back(entries->path());
  for (const fs::path& queue : queues) fs::remove_all(queue, problem);
  fs::remove(work, problem);  // unless something else is in it
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

double time_of_workers(const std::vector<WorkItem>& items, std::int64_t workers) {
  std::vector<double> busy_until(static_cast<std::size_t>(workers));
  for (const WorkItem& item : items) *std::ranges::min_element(busy_until) += item.cost;
  return std::ranges::max(busy_until);
}

double seconds_of_workers(const std::vector<WorkItem>& items, std::int64_t workers, double seconds, double faster) {
  const double alone = time_of_workers(items, 1);
  if (alone == 0) return seconds;
  return seconds * time_of_workers(items, workers) / alone * static_cast<double>(workers) / faster;
}

}  // namespace cogwheel::compare
