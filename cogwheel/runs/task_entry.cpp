#include "cogwheel/runs/task_entry.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {

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

std::shared_ptr<const Task> make_random_task(const RunConfig& config, const RandomItems& items) {
  const TaskEntry& entry = find_task(config.task.name);
  if (entry.random != nullptr) return entry.random(config, items);
  std::vector<std::string> known;
  for (const TaskEntry& each : tasks())
    if (each.random != nullptr) known.push_back(each.description.name);
  throw UsageError(expected_got("task", expected_names(config.task.name, known), config.task.name));
}

}  // namespace cogwheel::runs
