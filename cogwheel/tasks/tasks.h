// The list of all tasks.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/train/task.h"

namespace cogwheel {

struct TaskEntry {
  TaskDescription description;  // with default options
  // Loads or draws the data. `folder` is that of a resumed run or comparison, whose assets are used and whose records
  // tell what has changed. Throws UsageError for invalid options, Error for data.
  std::shared_ptr<const Task> (*make)(const RunConfig& config, const std::filesystem::path& folder);
};

// In the order of configuration/tasks.def.
std::span<const TaskEntry> tasks();
std::vector<std::string> task_names();

// The task that config.task names. Throws UsageError with the nearest names, and what its `make` throws.
std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder = {});

}  // namespace cogwheel
