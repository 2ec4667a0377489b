#include "cogwheel/tasks/task_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks {
namespace {

// "the task translation", "the task sentences or masked_words".
std::string readers_text(const TaskFileOption& option) {
  return fmt::format("the task {}", fmt::join(option.readers, " or "));
}

}  // namespace

std::string TaskFileOption::help() const { return fmt::format("of {}: {}", readers_text(*this), what); }

std::string TaskFileOption::flag() const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

std::span<const TaskFileOption> task_file_options() {
  static const std::vector<TaskFileOption> options{
      {"source", {"translation"}, "sentences to translate, one a line; .gz too", "FILE"},
      {"target", {"translation"}, "the translations of --source, line by line", "FILE"},
      {"strokes", {"handwriting"}, "a folder of IAM-OnDB or .ndjson files of QuickDraw", "PATH"},
      {"sentences", {"sentences", "masked_words"}, "a .tsv or .csv table with labels, or text; .gz too", "FILE"},
      {"held_out_sentences", {"sentences", "masked_words"}, "what is measured on; else a tenth of --sentences", "FILE"},
      {"images", {"images", "diffusion"}, "CIFAR-10, folders of pictures by class, or .safetensors", "PATH"},
  };
  return options;
}

void expect_files_of_task(const std::map<std::string, std::string>& files, std::string_view task) {
  for (const TaskFileOption& option : task_file_options()) {
    const auto given = files.find(option.key);
    if (given == files.end() || given->second.empty()) continue;
    if (std::find(option.readers.begin(), option.readers.end(), task) == option.readers.end())
      throw UsageError(expected_got(option.flag(), readers_text(option), task));
  }
}

}  // namespace cogwheel::tasks
