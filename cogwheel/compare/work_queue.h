// What a comparison has to make, in its folder, so that several processes share it: DIR/work/queue.json lists trials
// and runs, longest first; the lock of DIR/work/<item>/ says that a process makes that one, and result.json there what
// came of it. A process that is killed loses its locks, so that another goes on from the checkpoint of its run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/core/files/folder_lock.h"

namespace cogwheel::compare {

// A trial of a learning rate, or a run.
struct WorkItem {
  std::string mechanism = {};
  std::optional<double> rate = {};  // of a trial
  std::int64_t seed = 0;            // of a run
  double cost = 0;                  // by which the longest comes first, in any unit

  std::string name() const;   // of its folder
  std::string label() const;  // in lines of progress
};

// Whoever has it makes the item.
class WorkClaim {
 public:
  WorkClaim(std::filesystem::path folder, std::unique_ptr<FolderLock> lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  void keep(const TuningTrial& trial) const;
  void keep(const RunResult& result) const;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<FolderLock> lock_;
};

// How a worker must be, and where runs are kept, so that all make the same.
struct WorkTerms {
  std::string build = {};         // of the program
  std::string instructions = {};  // those that kernels use
  std::string store = {};         // the folder of the runs; empty: that of the comparison
  std::string store_version = {};
  bool retrain = false;  // what the store has is made anew
};

// This program on this machine.
WorkTerms terms_here();

class WorkQueue {
 public:
  // Of the process of the comparison, which has its folder: for those items, without results of an earlier queue.
  // Throws Error where the file system has no locks.
  static WorkQueue open(const std::filesystem::path& comparison, WorkTerms terms, std::vector<WorkItem> items);
  // Of a worker. Throws Error where nothing is to be made there, or a worker here would make something else.
  static WorkQueue join(const std::filesystem::path& comparison);

  const std::vector<WorkItem>& items() const { return items_; }
  const WorkTerms& terms() const { return terms_; }

  // None where another process has the item, or its result is there.
  std::optional<WorkClaim> claim(const WorkItem& item) const;
  bool is_claimed(const WorkItem& item) const;
  // The process that claimed it last, of whatever machine; 0 where none did.
  std::int64_t last_process(const WorkItem& item) const;
  bool has_result(const WorkItem& item) const;
  // None where it is not there. Throws Error where it is damaged.
  std::optional<TuningTrial> trial(const WorkItem& item) const;
  std::optional<RunResult> run(const WorkItem& item, const runs::TaskDescription& task) const;

  // Whether the process of the comparison still waits for this queue.
  bool is_open() const;
  // Nothing more is to be made; workers stop.
  void close() const;

 private:
  WorkQueue(std::filesystem::path comparison, WorkTerms terms, std::vector<WorkItem> items)
      : comparison_(std::move(comparison)), terms_(std::move(terms)), items_(std::move(items)) {}
  std::filesystem::path folder_of(const WorkItem& item) const;

  std::filesystem::path comparison_;
  WorkTerms terms_;
  std::vector<WorkItem> items_;
  std::string text_ = {};  // of the file, by which another queue is told
};

// Removes what is left of a queue of a comparison, which no worker is at.
void remove_work(const std::filesystem::path& comparison);

// The items of what a planned comparison has still to make, trials before runs and the longest first: by what was
// measured of each row, or where that is not known of all by their parameters.
std::vector<WorkItem> items_to_do(const Comparison& comparison, const std::map<std::string, double>& steps_per_second);

}  // namespace cogwheel::compare
