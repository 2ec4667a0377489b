// The list of all tasks and of what pages show of them, which stands above all that reads it.
#include <vector>

#include "cogwheel/runs/model_entry.h"
#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel {

#define TASK(name, model)  \
  TaskEntry name##_task(); \
  const ModelEntry& model##_entry();
#include "cogwheel/tasks/tasks.def"
#undef TASK

#define FIGURE(kind) FigureKind kind##_figure();
#include "cogwheel/tasks/figures.def"
#undef FIGURE

std::span<const TaskEntry> tasks() {
  static const std::vector<TaskEntry> all{
#define TASK(name, model) name##_task(),
#include "cogwheel/tasks/tasks.def"
#undef TASK
  };
  return all;
}

ModelOptions model_of_task(std::string_view task) {
#define TASK(name, model) \
  if (task == #name) return model##_entry().options();
#include "cogwheel/tasks/tasks.def"
#undef TASK
  return language_model_entry().options();
}

std::span<const FigureKind> figure_kinds() {
  static const std::vector<FigureKind> all{
#define FIGURE(kind) kind##_figure(),
#include "cogwheel/tasks/figures.def"
#undef FIGURE
  };
  return all;
}

}  // namespace cogwheel
