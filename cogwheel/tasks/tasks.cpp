#include "cogwheel/tasks/tasks.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"

namespace cogwheel {

#define TASK(name, Options) TaskEntry name##_task();
#include "cogwheel/configuration/tasks.def"
#undef TASK

std::span<const TaskEntry> tasks() {
  static const std::vector<TaskEntry> all{
#define TASK(name, Options) name##_task(),
#include "cogwheel/configuration/tasks.def"
#undef TASK
  };
  return all;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& entry : tasks()) names.push_back(entry.description.name);
  return names;
}

const TaskEntry& find_task(const std::string& name) {
  for (const TaskEntry& entry : tasks())
    if (entry.description.name == name) return entry;
  throw UsageError(expected_got("task", expected_names(name, task_names()), name));
}

std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder) {
  return find_task(config.task.name).make(config, folder);
}

}  // namespace cogwheel
