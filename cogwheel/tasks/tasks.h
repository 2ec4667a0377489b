// The list of all tasks.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/tasks/sampler.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

struct TaskEntry {
  TaskDescription description;  // with default options
  // Loads or draws the data. `folder` is that of a resumed run or comparison, whose assets are used and whose records
  // tell what has changed. Throws UsageError for invalid options, Error for data.
  std::shared_ptr<const Task> (*make)(const RunConfig& config, const std::filesystem::path& folder);
  Sampler sampler = {};  // none, where `cogwheel sample` has nothing to show
};

// In the order of configuration/tasks.def.
std::span<const TaskEntry> tasks();
std::vector<std::string> task_names();
// Throws UsageError with the nearest names.
const TaskEntry& find_task(const std::string& name);

// The task that config.task names. Throws what find_task and its `make` throw.
std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder = {});

}  // namespace cogwheel
