#include "cogwheel/cli/task_files.h"

#include <CLI/CLI.hpp>

#include "cogwheel/tasks/task_files.h"

namespace cogwheel::cli {

std::vector<CLI::Option*> add_task_file_options(CLI::App& command, TaskFiles& files) {
  std::vector<CLI::Option*> options;
  for (const tasks::TaskFileOption& option : tasks::task_file_options())
    options.push_back(command.add_option(option.flag(), files[option.key], option.help())->type_name(option.type));
  return options;
}

void add_task_files(const TaskFiles& files, runs::TaskOptions& task) {
  tasks::expect_files_of_task(files, task.name);
  for (const auto& [name, path] : files)
    if (!path.empty()) task.values[name] = path;
}

}  // namespace cogwheel::cli
