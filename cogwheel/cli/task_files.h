// The files of tasks that learn from other things than one text: --source, --images and so on (tasks/task_files.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cogwheel::cli {

// By the option of the task, such as source of task.source.
using TaskFiles = std::map<std::string, std::string>;

// Adds an option for each; `files` lives as long as the command.
std::vector<CLI::Option*> add_task_file_options(CLI::App& command, TaskFiles& files);

// Sets those that were given, which the task checks. Throws UsageError where the task reads none such.
void add_task_files(const TaskFiles& files, runs::TaskOptions& task);

}  // namespace cogwheel::cli
