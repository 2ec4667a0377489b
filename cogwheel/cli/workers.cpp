#include "cogwheel/cli/workers.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/progress.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/run_maker.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/compare/worker.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

constexpr Range<std::int64_t> worker_range{1, 1024}, thread_range{1, 4096};
constexpr int max_crashes_of_an_item = 10;

// Sets a flag where the user asks to stop, or the comparison no longer waits for its workers.
class StopSignal {
 public:
  explicit StopSignal(const compare::WorkQueue& queue)
      : thread_([&, this](const std::stop_token& ended) {
          while (!ended.stop_requested() && !stop_) {
            stop_ = stop_flag() || !queue.is_open();
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
        }) {}
  const std::atomic<bool>& flag() const { return stop_; }

 private:
  std::atomic<bool> stop_ = false;
  std::jthread thread_;
};

}  // namespace

std::int64_t Workers::used_threads() const {
  return threads > 0 ? threads : std::max<std::int64_t>(1, at::get_num_threads() / std::max<std::int64_t>(1, count));
}

Workers choose_workers(std::int64_t items, const MeasureTogether& measure) {
  constexpr double worth = 1.1;
  const std::int64_t threads = at::get_num_threads(), count = std::min(items, threads);
  if (count < 2 || measure(count, threads / count) < worth * measure(1, threads)) return {.count = 1};
  return {.count = count};
}

std::pair<CLI::Option*, CLI::Option*> add_worker_options(CLI::App& command, Workers& workers) {
  return {add_number(command, "--workers", workers.count, worker_range,
                     std::string("processes that train at the same time, which others can join (default: ") +
                         (workers.count == 1 ? "this one)" : "as many as train fastest, by trying)"))
              ->type_name("N"),
          add_number(command, "--threads", workers.threads, thread_range,
                     "of each worker (default: the machine's, shared equally)")
              ->type_name("T")};
}

ThreadCount::ThreadCount(std::int64_t threads) : before_(at::get_num_threads()) {
  if (threads != before_) at::set_num_threads(static_cast<int>(threads));
}

ThreadCount::~ThreadCount() {
  if (at::get_num_threads() != before_) at::set_num_threads(before_);
}

WorkerProcesses::~WorkerProcesses() {
  for (const auto& process : processes_)
    if (process) process->interrupt();
  for (const auto& process : processes_)
    if (process) process->wait();
}

std::unique_ptr<Process> WorkerProcesses::start() const {
  // This very file, even where another was built in its place meanwhile.
  std::vector<std::string> command{fmt::format("/proc/{}/exe", ::getpid()), "compare", "--join", comparison_.string()};
  command.insert(command.end(), workers_.options.begin(), workers_.options.end());
  return std::make_unique<Process>(
      command, Process::Options{.environment = {fmt::format("OMP_NUM_THREADS={}", workers_.used_threads()),
                                                "OMP_WAIT_POLICY=passive", "COGWHEEL_PYTHON=" + environment_python()},
                                .errors_in_output = true,
                                .own_group = true});
}

void WorkerProcesses::start_missing(const compare::WorkQueue& queue,
                                    const std::function<void(const std::string&)>& line) {
  const std::int64_t most_in_vain = 20 * workers_.count;
  const auto results = std::ranges::count_if(queue.items(), [&](const auto& item) { return queue.has_result(item); });
  if (std::exchange(results_then_, results) != results) ended_ = 0;
  for (std::size_t worker = 0; worker < processes_.size(); ++worker) {
    std::unique_ptr<Process>& process = processes_[worker];
    if (process && !process->has_ended()) continue;
    if (process) {
      const std::int64_t id = process->id();
      const Finished finished = process->wait();
      process.reset();
      const bool interrupted = finished.status == Interrupted("").exit_code();
      if (finished.signal == 0 && finished.status != 0 && !interrupted)
        throw Error("worker: " + last_line(finished.output, "cogwheel"));
      if (finished.status != 0) {
        const std::string cause = interrupted ? "an interrupt" : fmt::format("signal {}", finished.signal);
        if (++ended_ > most_in_vain)
          throw Error(expected_got("workers", "one that makes something",
                                   fmt::format("{} that ended before they did, the last by {}", ended_, cause)));
        line(fmt::format("  worker {} was ended by {}; another takes its place", worker + 1, cause));
        if (!interrupted) blame(queue, id, cause);
      }
    }
    if (results < std::ssize(queue.items())) process = start();
  }
}

void WorkerProcesses::blame(const compare::WorkQueue& queue, std::int64_t process, const std::string& cause) {
  for (const compare::WorkItem& item : queue.items()) {
    if (queue.has_result(item) || queue.last_process(item) != process ||
        ++crashes_[item.name()] < max_crashes_of_an_item)
      continue;
    const auto claim = queue.claim(item);
    if (!claim) continue;
    const std::string message =
        fmt::format("ended its process {} times, the last by {}", max_crashes_of_an_item, cause);
    if (item.rate)
      claim->keep(compare::TuningTrial{.mechanism = item.mechanism, .learning_rate = *item.rate, .message = message});
    else
      claim->keep(compare::RunResult{
          .mechanism = item.mechanism, .seed = item.seed, .status = compare::RunStatus::failed, .message = message});
  }
}

void join_comparison(const fs::path& path) {
  const compare::ComparisonFolder folder = compare::ComparisonFolder::join(path);
  const compare::WorkQueue queue = compare::WorkQueue::join(path);
  const compare::WorkTerms& terms = queue.terms();
  const ThreadCount threads(terms.threads);
  compare::Comparison comparison = folder.read();
  const compare::RowTasks tasks = compare::load_tasks(comparison, path);
  std::optional<compare::RunStore> store;
  if (!terms.store.empty()) store.emplace(terms.store, terms.store_version, terms.retrain, queue.id());
  Progress progress(comparison.task.decisive().label, comparison.task.counted);
  const StopSignal stop(queue);
  compare::RunMaker maker(
      tasks, folder,
      {.progress = [&](const std::string& label, const runs::StepReport& report) { progress.show(label, report); },
       .line = [&](const std::string& text) { progress.line(text); },
       .stop = &stop.flag()},
      store ? &*store : nullptr);
  const std::int64_t made = compare::work_on(queue, std::move(comparison), maker);
  progress.clear();
  fmt::print("{} made for {}\n", pages::counted(made, "result"), path.string());
  if (stop_flag() && queue.is_open()) throw Interrupted("interrupted; another worker goes on with what this one had");
}

}  // namespace cogwheel::cli
