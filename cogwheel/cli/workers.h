// Processes that make the runs of a comparison beside each other.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/compare/work_queue.h"
#include "cogwheel/core/process/process.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cogwheel::cli {

struct Workers {
  std::int64_t count = 1;
  std::int64_t threads = 0;               // of each; 0: those of this process, shared equally
  std::vector<std::string> options = {};  // that a worker needs beside the folder

  std::int64_t used_threads() const;
};

// Adds --workers and --threads to a command, of which those that were given are returned first and second.
std::pair<CLI::Option*, CLI::Option*> add_worker_options(CLI::App& command, Workers& workers);

// A process has as many threads as a worker while this lives. More threads than cores are warned of.
class ThreadsOfAWorker {
 public:
  explicit ThreadsOfAWorker(const Workers& workers);
  ThreadsOfAWorker(const ThreadsOfAWorker&) = delete;
  ThreadsOfAWorker& operator=(const ThreadsOfAWorker&) = delete;
  ~ThreadsOfAWorker();

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
        places_(static_cast<std::size_t>(workers_.count)) {}
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;
  ~WorkerProcesses();

  // Starts those that do not run: at first all, later another in the place of one that was killed, which `line` tells.
  // An item that has ended ten processes gets a failure as its result. Throws Error where a worker ends with an error
  // of its own.
  void keep_at_work(const compare::WorkQueue& queue, const std::function<void(const std::string&)>& line);

 private:
  std::unique_ptr<Process> start() const;
  void blame(const compare::WorkQueue& queue, std::int64_t process, const std::string& cause);

  Workers workers_;
  std::filesystem::path comparison_;
  struct Place {
    std::unique_ptr<Process> process;
    bool done = false;  // it found nothing more to make
  };
  std::vector<Place> places_;
  std::map<std::string, int> ended_by_;  // by the name of the item
};

// Works on the comparison of a folder, as a process that its own started, or that somebody did who has time for it.
void join_comparison(const std::filesystem::path& comparison, std::int64_t threads);

}  // namespace cogwheel::cli
