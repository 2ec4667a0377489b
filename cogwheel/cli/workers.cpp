#include "cogwheel/cli/workers.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/auxv.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include "cogwheel/pages/html.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

constexpr Range<std::int64_t> worker_range{1, 1024}, thread_range{1, 4096};
constexpr int most_ended = 10;  // processes that one item ends before it counts as one that fails

// As it was called: the Python of the environment lies beside it.
std::string this_program() { return reinterpret_cast<const char*>(::getauxval(AT_EXECFN)); }

// The last line of what a program wrote, without the name of the program.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  constexpr std::string_view program = "cogwheel: ";
  return text.starts_with(program) ? text.substr(program.size()) : text;
}

// Asks to stop where the comparison no longer waits for its workers.
class QueueWatch {
 public:
  explicit QueueWatch(const compare::WorkQueue& queue)
      : thread_([&queue](const std::stop_token& stopped) {
          while (!stopped.stop_requested() && queue.is_open())
            std::this_thread::sleep_for(std::chrono::milliseconds(250));
          if (!stopped.stop_requested()) ask_to_stop();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

std::int64_t Workers::used_threads() const {
  return threads > 0 ? threads : std::max<std::int64_t>(1, at::get_num_threads() / count);
}

std::pair<CLI::Option*, CLI::Option*> add_worker_options(CLI::App& command, Workers& workers) {
  return {add_number(command, "--workers", workers.count, worker_range,
                     "processes that train at the same time; more can join (default: 1, this one)")
              ->type_name("N"),
          add_number(command, "--threads", workers.threads, thread_range,
                     "of each worker (default: the machine's, shared equally)")
              ->type_name("T")};
}

ThreadsOfAWorker::ThreadsOfAWorker(const Workers& workers) : before_(at::get_num_threads()) {
  const std::int64_t each = workers.used_threads(), all = each * workers.count;
  if (const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency()); cores > 0 && all > cores)
    fmt::print(stderr, "{} of {} on {}: slower than as many as there are\n", pages::counted(workers.count, "worker"),
               pages::counted(each, "thread"), pages::counted(cores, "core"));
  if (each != before_) at::set_num_threads(static_cast<int>(each));
}

ThreadsOfAWorker::~ThreadsOfAWorker() { at::set_num_threads(before_); }

WorkerProcesses::~WorkerProcesses() {
  for (const Place& place : places_)
    if (place.process) place.process->interrupt();
  for (const Place& place : places_)
    if (place.process) place.process->wait();
}

std::unique_ptr<Process> WorkerProcesses::start() const {
  const std::string threads = std::to_string(workers_.used_threads());
  std::vector<std::string> command{this_program(), "compare", "--join", comparison_.string(), "--threads", threads};
  command.insert(command.end(), workers_.options.begin(), workers_.options.end());
  return std::make_unique<Process>(
      command,
      Process::Options{.environment = {"OMP_NUM_THREADS=" + threads}, .errors_in_output = true, .own_group = true});
}

void WorkerProcesses::keep_at_work(const compare::WorkQueue& queue,
                                   const std::function<void(const std::string&)>& line) {
  for (std::size_t worker = 0; worker < places_.size(); ++worker) {
    auto& [process, done] = places_[worker];
    if (done || (process && !process->has_ended())) continue;
    if (process) {
      const std::int64_t id = process->id();
      const Finished finished = process->wait();
      process.reset();
      done = finished.status == 0;
      if (done) continue;
      if (finished.status < 128) throw Error("worker: " + last_line(finished.output));
      const std::string cause = fmt::format("signal {}", finished.status - 128);
      line(fmt::format("  worker {} was ended by {}; another takes its place", worker + 1, cause));
      blame(queue, id, cause);
    }
    process = start();
  }
}

void WorkerProcesses::blame(const compare::WorkQueue& queue, std::int64_t process, const std::string& cause) {
  for (const compare::WorkItem& item : queue.items()) {
    if (queue.has_result(item) || queue.last_process(item) != process || ++ended_by_[item.name()] < most_ended)
      continue;
    const auto claim = queue.claim(item);
    if (!claim) continue;
    const std::string message = fmt::format("ended its process {} times, the last by {}", most_ended, cause);
    if (item.rate)
      claim->keep(compare::TuningTrial{.mechanism = item.mechanism, .learning_rate = *item.rate, .message = message});
    else
      claim->keep(compare::RunResult{
          .mechanism = item.mechanism, .seed = item.seed, .status = compare::RunStatus::failed, .message = message});
  }
}

void join_comparison(const fs::path& path, std::int64_t threads) {
  const ThreadsOfAWorker own({.threads = threads});
  const compare::ComparisonFolder folder = compare::ComparisonFolder::join(path);
  const compare::WorkQueue queue = compare::WorkQueue::join(path);
  compare::Comparison comparison = folder.read();
  const compare::RowTasks tasks = compare::load_tasks(comparison, path);
  std::optional<compare::RunStore> store;
  if (!queue.terms().store.empty())
    store.emplace(queue.terms().store, queue.terms().store_version, queue.terms().retrain);
  Progress progress(comparison.task.decisive().label, comparison.task.counted);
  compare::RunMaker maker(
      tasks, folder,
      {.progress = [&](const std::string& label, const runs::StepReport& report) { progress.show(label, report); },
       .line = [&](const std::string& text) { progress.line(text); },
       .stop = &stop_flag()},
      store ? &*store : nullptr);
  const QueueWatch watch(queue);
  const std::int64_t made = compare::work_on(queue, std::move(comparison), maker);
  progress.clear();
  fmt::print("{} made for {}\n", pages::counted(made, "result"), path.string());
  if (maker.asked_to_stop() && queue.is_open())
    throw Interrupted("interrupted; another worker goes on with what this one had");
}

}  // namespace cogwheel::cli
