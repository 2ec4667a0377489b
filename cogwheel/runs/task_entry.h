// A task as the rest of the program knows it, and the list of all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/sampler.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

// The shapes of random items that a model's options do not say.
struct RandomItems {
  // Tokens of a target sentence with its end; of a row with hidden words; points of a pen that are predicted.
  std::int64_t length = 1;
  std::int64_t source = 1;  // tokens of a source sentence with its end; characters that are written
};

// A size at which mechanisms are compared (compare/plan/presets.h), and for some tasks their options.
struct Preset {
  std::string_view name;
  std::string_view summary;
  ModelOptions model;
  TrainingOptions training;       // steps and what follows from them are set by the comparison
  std::int64_t evaluated_tokens;  // of the held-out part, at most, in the last evaluation of a run
  double seconds;                 // the duration of a whole comparison if no steps are given
  std::int64_t steps = 0;         // of a run, if none are given, instead of as many as fit into `seconds`
  std::string_view form = "gpt";  // of the models, if none is given
  std::vector<std::string> attention{"softmax", "cog", "differential", "symmetric"};  // if none is named
  TaskOptions task = {};                                                              // language modelling: of any task

  bool has_task() const { return task.name != TaskOptions{}.name; }
};

struct TaskEntry {
  TaskDescription description;  // with default options
  // Loads or draws the data. `folder` is that of a resumed run or comparison, whose assets are used and whose records
  // tell what has changed. Throws UsageError for invalid options, Error for data.
  std::shared_ptr<const Task> (*make)(const RunConfig& config, const std::filesystem::path& folder);
  Sampler sampler = {};  // none, where `cogwheel sample` has nothing to show
  // The task on random numbers, for benchmarks: what is learned does not matter, only its shape. The model of the
  // configuration says its vocabulary, and of images their size; all items are as long as each other, so that nothing
  // is padding. Throws UsageError for a vocabulary or items that cannot be drawn. Null where there is none.
  std::shared_ptr<const Task> (*random)(const RunConfig& config, const RandomItems& items) = nullptr;
  // Null where the presets of language models serve the task.
  Preset (*preset)() = nullptr;
  std::vector<Preset (*)()> other_presets = {};  // of the other models that learn the task, where there are any
  // Whether it learns from a text or corpora, and its model continues texts: ReadBy::tasks_on_text.
  bool reads_text = false;
  // Of another task, the keys that say where its data are; empty: it draws them.
  std::string_view data_keys = {};
};

// In the order of tasks/tasks.def; tasks/tasks.cpp defines it.
std::span<const TaskEntry> tasks();
std::vector<std::string> task_names();
// Throws UsageError with the nearest names.
const TaskEntry& find_task(const std::string& name);

// The task that config.task names; `folder`: of the run or comparison that recorded the configuration. Throws what
// find_task and its `make` throw, and UsageError that names a key whose value is not its default though the task does
// not read it, which the same of random numbers does too. Recorded keys are not refused: nobody gave them now.
std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder = {});
// Throws UsageError that names the tasks which have some.
std::shared_ptr<const Task> make_random_task(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel::runs
