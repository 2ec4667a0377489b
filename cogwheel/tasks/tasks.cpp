// The list of all tasks and of what pages show of them, which stands above all that reads it.
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/model_entry.h"
#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::tasks {

#define TASK(subject, name, subject_of_model, model) \
  namespace subject {                                \
  runs::TaskEntry name##_task();                     \
  }                                                  \
  namespace subject_of_model {                       \
  const runs::ModelEntry& model##_entry();           \
  }
#define OTHER_MODEL(name, first, word, subject_of_model, model) \
  namespace subject_of_model {                                  \
  const runs::ModelEntry& model##_entry();                      \
  }
#include "cogwheel/tasks/tasks.def"
#undef TASK

#define FIGURE(subject, kind)       \
  namespace subject {               \
  runs::FigureKind kind##_figure(); \
  }
#include "cogwheel/tasks/figures.def"
#undef FIGURE

}  // namespace cogwheel::tasks

namespace cogwheel::runs {

std::span<const TaskEntry> tasks() {
  static const std::vector<TaskEntry> all{
#define TASK(subject, name, subject_of_model, model) tasks::subject::name##_task(),
#include "cogwheel/tasks/tasks.def"
#undef TASK
  };
  return all;
}

ModelOptions model_of_task(std::string_view task, std::string_view model_word) {
  std::vector<std::string> words;  // of the models of the task, where there are several; the first one's comes first
#define OTHER_MODEL(name, first, word, subject_of_model, model)                         \
  if (task == #name) {                                                                  \
    if (model_word == #word) return tasks::subject_of_model::model##_entry().options(); \
    if (words.empty()) words.emplace_back(#first);                                      \
    words.emplace_back(#word);                                                          \
  }
#define TASK(subject, name, subject_of_model, model)
#include "cogwheel/tasks/tasks.def"
#undef TASK
  if (!words.empty() && !model_word.empty() && model_word != words.front())
    throw UsageError(expected_got("task.model", expected_names(model_word, words), model_word));
#define TASK(subject, name, subject_of_model, model) \
  if (task == #name) return tasks::subject_of_model::model##_entry().options();
#include "cogwheel/tasks/tasks.def"
#undef TASK
  return tasks::language::language_model_entry().options();
}

std::span<const FigureKind> figure_kinds() {
  static const std::vector<FigureKind> all{
#define FIGURE(subject, kind) tasks::subject::kind##_figure(),
#include "cogwheel/tasks/figures.def"
#undef FIGURE
  };
  return all;
}

}  // namespace cogwheel::runs
