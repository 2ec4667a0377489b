// What a comparison has to make, in its folder, so that several processes share it. DIR/work/queue.json lists trials
// and runs, longest first, under an identifier that no other queue has; the lock of DIR/work/<identifier>/<item>/ says
// that a process makes that item, and result.json there what came of it. A process that is killed loses its locks, so
// that another goes on from the checkpoint of its run.
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
  double cost = 0;                  // by which the longest comes first: seconds, or any other unit that all share

  std::string name() const;   // of its folder
  std::string label() const;  // in lines of progress
};

// Whoever has it makes the item.
class WorkClaim {
 public:
  WorkClaim(std::filesystem::path folder, std::unique_ptr<FolderLock> lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  // `lines`: what was said meanwhile.
  void keep(const TuningTrial& trial, const std::vector<std::string>& lines = {}) const;
  void keep(const RunResult& result, const std::vector<std::string>& lines = {}) const;

 private:
  void keep(const std::string& result, const std::vector<std::string>& lines) const;

  std::filesystem::path folder_;
  std::unique_ptr<FolderLock> lock_;
};

// How a worker must be, and where runs are kept, so that all make the same.
struct WorkTerms {
  std::string build = {};                                  // of the program and the libraries that compute
  std::string instructions = {};                           // those that kernels use
  std::int64_t threads = 1;                                // of each worker: sums depend on it
  std::string matrix_products = {};                        // the library of float32 ones
  std::string attention_product = {}, layer_product = {};  // of bfloat16 numbers, where runs multiply them
  std::string store = {};                                  // the folder of the runs; empty: that of the comparison
  std::string store_version = {};
  bool retrain = false;  // what the store has is made anew
};

// This program, with its threads, on this machine, for runs that multiply bfloat16 numbers or none that does. Throws
// Error for a build without an identifier.
WorkTerms terms_here(bool multiplies_bfloat16 = false);

// queue.json.
struct WorkRecord {
  std::int64_t schema = 1;
  std::string id = {};
  WorkTerms terms = {};
  std::vector<WorkItem> items = {};
};

class WorkQueue {
 public:
  // Of the process of the comparison, which has its folder, for those items; an earlier queue is removed. Throws Error
  // where the file system has no locks.
  static WorkQueue open(const std::filesystem::path& comparison, WorkTerms terms, std::vector<WorkItem> items);
  // Of a worker, which multiplies bfloat16 numbers from now on as the others do. Throws Error where nothing is to be
  // made there, or a worker here would make something else.
  static WorkQueue join(const std::filesystem::path& comparison);

  const std::vector<WorkItem>& items() const { return record_.items; }
  const WorkTerms& terms() const { return record_.terms; }
  const std::string& id() const { return record_.id; }

  // None where another process has the item, or its result is there.
  std::optional<WorkClaim> claim(const WorkItem& item) const;
  bool is_claimed(const WorkItem& item) const;
  // The process that claimed it last, of whatever machine; 0 where none did.
  std::int64_t last_process(const WorkItem& item) const;
  bool has_result(const WorkItem& item) const;
  // None where it is not there. Throws Error where it is damaged.
  std::optional<TuningTrial> trial(const WorkItem& item) const;
  std::optional<RunResult> run(const WorkItem& item, const runs::TaskDescription& task) const;
  // What was said while an item was made that has a result.
  std::vector<std::string> lines(const WorkItem& item) const;

  // Whether the process of the comparison still waits for this queue.
  bool is_open() const;
  // Nothing more is to be made; workers stop.
  void close() const;

 private:
  WorkQueue(std::filesystem::path comparison, WorkRecord record)
      : comparison_(std::move(comparison)), record_(std::move(record)) {}
  std::filesystem::path folder_of(const WorkItem& item) const;

  std::filesystem::path comparison_;
  WorkRecord record_;
};

// Removes the queue of a comparison, whose folder this process has.
void remove_work(const std::filesystem::path& comparison);

// The items of what a planned comparison has still to make, trials before runs and the longest first: by what was
// measured of each row, or where that is not known of all by their parameters.
std::vector<WorkItem> items_to_do(const Comparison& comparison, const std::map<std::string, double>& steps_per_second);

// How long so many workers take for items, in the order of the list, in the unit of their costs.
double time_of_workers(const std::vector<WorkItem>& items, std::int64_t workers);

// The same in seconds, of items that one process makes in `seconds`, by workers that together, while all of them are
// busy, are so many times as fast as it.
double seconds_of_workers(const std::vector<WorkItem>& items, std::int64_t workers, double seconds, double faster);

}  // namespace cogwheel::compare
