#include "cogwheel/tasks/task_files.h"

#include <algorithm>

namespace cogwheel {

std::string TaskFileOption::flag() const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

std::span<const TaskFileOption> task_file_options() {
  static constexpr TaskFileOption options[] = {
      {"source", "of the task translation: sentences to translate, one a line; .gz too", "FILE"},
      {"target", "their translations, line by line", "FILE"},
      {"strokes", "of the task handwriting: a folder of IAM-OnDB or .ndjson files of QuickDraw", "PATH"},
      {"sentences", "of the tasks sentences and masked_words: a .tsv or .csv table with labels, or text; .gz too",
       "FILE"},
      {"held_out_sentences", "of the same tasks: what is measured on; else a tenth of --sentences", "FILE"},
      {"images", "of the tasks images and diffusion: CIFAR-10, folders of pictures by class, or .safetensors", "PATH"},
  };
  return options;
}

}  // namespace cogwheel
