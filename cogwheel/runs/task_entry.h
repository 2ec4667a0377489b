// A task as the rest of the program knows it, and the list of all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/runs/sampler.h"
#include "cogwheel/runs/task.h"

namespace cogwheel {

// The shapes of random items that a model's options do not say.
struct RandomItems {
  // Tokens of a target sentence with its end; of a row with hidden words; points of a pen that are predicted.
  std::int64_t length = 1;
  std::int64_t source = 1;  // tokens of a source sentence with its end; characters that are written
};

struct TaskEntry {
  TaskDescription description;  // with default options
  // Loads or draws the data. `folder` is that of a resumed run or comparison, whose assets are used and whose records
  // tell what has changed. Throws UsageError for invalid options, Error for data.
  std::shared_ptr<const Task> (*make)(const RunConfig& config, const std::filesystem::path& folder);
  Sampler sampler = {};  // none, where `cogwheel sample` has nothing to show
  // The task on random numbers, for benchmarks: what is learned does not matter, only its shape. The model of the
  // configuration says its vocabulary, and of images their size; all items are as long as each other, so that nothing
  // is padding. Throws UsageError for a vocabulary or items that cannot be drawn. Null where there is none.
  std::shared_ptr<const Task> (*random)(const RunConfig& config, const RandomItems& items) = nullptr;
};

// In the order of tasks/tasks.def; tasks/tasks.cpp defines it.
std::span<const TaskEntry> tasks();
std::vector<std::string> task_names();
// Throws UsageError with the nearest names.
const TaskEntry& find_task(const std::string& name);

// The task that config.task names. Throws what find_task and its `make` throw.
std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder = {});
// The same on random numbers. Throws UsageError that names the tasks which have some.
std::shared_ptr<const Task> make_random_task(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel
