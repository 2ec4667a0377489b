// The files of tasks that learn from other things than one text, as the command line and the record of a comparison
// name them.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::tasks {

struct TaskFileOption {
  const char* key;                        // of the configuration, after "task."
  std::vector<std::string_view> readers;  // the tasks that read it
  const char* what;                       // it is to them
  const char* type;                       // "FILE" or "PATH"

  std::string help() const;  // "of the task translation: sentences to translate, …"

  std::string flag() const;  // such as --held-out-sentences
};

std::span<const TaskFileOption> task_file_options();

// Throws UsageError, which names the option and the tasks that read it, where the task is none of them. `files`: paths
// by key; those that are empty were not given.
void expect_files_of_task(const std::map<std::string, std::string>& files, std::string_view task);

}  // namespace cogwheel::tasks
