#include "cogwheel/cli/task_files.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace cogwheel {

std::vector<CLI::Option*> add_task_file_options(CLI::App& command, TaskFiles& files) {
  std::vector<CLI::Option*> options;
  const auto add = [&](const std::string& key, const char* help, const char* type) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    options.push_back(command.add_option("--" + name, files[key], help)->type_name(type));
  };
  add("source", "of the task translation: sentences to translate, one a line; .gz too", "FILE");
  add("target", "their translations, line by line", "FILE");
  add("strokes", "of the task handwriting: a folder of IAM-OnDB or .ndjson files of QuickDraw", "PATH");
  add("sentences", "of the tasks sentences and masked_words: a .tsv or .csv table with labels, or text; .gz too",
      "FILE");
  add("held_out_sentences", "of the same tasks: what is measured on; else a tenth of --sentences", "FILE");
  add("images", "of the tasks images and diffusion: CIFAR-10, folders of pictures by class, or .safetensors", "PATH");
  return options;
}

void add_task_files(const TaskFiles& files, TaskOptions& task) {
  for (const auto& [name, path] : files)
    if (!path.empty()) task.values[name] = path;
}

}  // namespace cogwheel
