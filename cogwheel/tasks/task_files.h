// The files of tasks that learn from other things than one text, as the command line and the record of a comparison
// name them.
#pragma once
#include <span>
#include <string>

namespace cogwheel {

struct TaskFileOption {
  const char* key;   // of the configuration, after "task."
  const char* help;  // which tasks read it, and as what
  const char* type;  // "FILE" or "PATH"

  std::string flag() const;  // such as --held-out-sentences
};

std::span<const TaskFileOption> task_file_options();

}  // namespace cogwheel
