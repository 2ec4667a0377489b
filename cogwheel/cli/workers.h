// Processes that make the runs of a comparison beside each other.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/compare/work_queue.h"
#include "cogwheel/core/process/process.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cogwheel::cli {

struct Workers {
  std::int64_t count = 1;                 // 0: as choose_workers finds
  std::int64_t threads = 0;               // of each; 0: those of this process, shared equally
  std::vector<std::string> options = {};  // that a worker needs beside the folder

  std::int64_t used_threads() const;
};

// Steps per second of so many workers together, each with its threads, where these train at the same time.
using MeasureTogether = std::function<double(std::int64_t workers, std::int64_t threads)>;

// How many train the most on the threads of this process: one with all of them, or as many as there are threads and
// `items` to share where those are at least a tenth faster, together, by trying.
Workers choose_workers(std::int64_t items, const MeasureTogether& measure);

// Adds --workers and --threads to a command and returns them, in this order.
std::pair<CLI::Option*, CLI::Option*> add_worker_options(CLI::App& command, Workers& workers);

// This thread computes with so many while this lives.
class ThreadCount {
 public:
  explicit ThreadCount(std::int64_t threads);
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount();

 private:
  int before_;
};

// `cogwheel compare --join` as often as there are workers. They do not outlive this: where it is destroyed they stop,
// and their runs keep a checkpoint.
class WorkerProcesses {
 public:
  WorkerProcesses(Workers workers, std::filesystem::path comparison)
      : workers_(std::move(workers)),
        comparison_(std::move(comparison)),
        processes_(static_cast<std::size_t>(workers_.count)) {}
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;
  ~WorkerProcesses();

  // Starts those that are missing: at first all, later another in the place of one that was killed, which `line` tells.
  // An item that has ended ten processes gets a failure as its result. Throws Error where a worker ends with an error
  // of its own, or one after the other ends and nothing is made.
  void start_missing(const compare::WorkQueue& queue, const std::function<void(const std::string&)>& line);

 private:
  std::unique_ptr<Process> start() const;
  void blame(const compare::WorkQueue& queue, std::int64_t process, const std::string& cause);

  Workers workers_;
  std::filesystem::path comparison_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::string, int> crashes_;         // by the name of the item
  std::int64_t ended_ = 0, results_then_ = 0;  // how many ended since there were so many results
};

// Works on the comparison of a folder, as a process that its own started, or that somebody did who has time for it.
void join_comparison(const std::filesystem::path& comparison);

}  // namespace cogwheel::cli
