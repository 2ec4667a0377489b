// config.toml: the whole configuration of a run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/configuration/config_field.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/runs/configuration/training_options.h"
#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::runs {

struct DataOptions {
  std::vector<std::string> text;  // files and folders; none: Python's standard library
  std::string tokenizer = "character";
  std::int64_t vocabulary = text::default_byte_pair_vocabulary;  // of tokenizer "bpe", which is learned from the text
  std::int64_t byte_limit = 8 << 20;                             // 0: none
  std::string sha256;  // of the text or the corpora; if set, different ones are refused
  // Instead of a text, folders that `cogwheel data prepare` made.
  std::vector<std::string> corpus = {};
  std::vector<double> weights = {};        // of each in training; none: by their tokens
  std::string packing = "windows";         // of their documents; or "documents", which see only themselves
  std::int64_t held_out_tokens = 1 << 20;  // of those they hold out, evaluated at most; 0: all
};

struct TaskOptions {
  std::string name = "language_modelling";
  // The options of the task, [task] key = value, which it checks and completes (runs/task_options.h).
  std::map<std::string, ConfigValue> values = {};
};

// The default options of the model that learns a task; of a language model for a task that is not known. `model` is the
// value of task.model, where one of several models learns it; empty: the first. Throws UsageError for another word.
// What they are is said in the list of all tasks, which stands above: tasks/tasks.cpp defines it.
ModelOptions model_of_task(std::string_view task, std::string_view model = {});
ModelOptions model_of_task(const TaskOptions& task);

struct RunConfig {
  std::string name = "run";
  TaskOptions task;
  DataOptions data;
  ModelOptions model = model_of_task(TaskOptions().name);  // of the topology that learns the task
  TrainingOptions training;
  // The definition of a user's own mechanism, by which it can be registered again (authoring.h); empty for a built-in
  // one.
  std::string definition = {};
};

// Missing keys keep their defaults. `assignments` override those of the text, as set_options does; one that names
// another task, or its model (task.model), decides which model the keys of the text are of. Throws UsageError that
// names `what` for a key that is unknown, or of the model of another task (with the nearest names), of the wrong type
// or out of range; Error where the file cannot be read.
RunConfig parse_config(std::string_view toml, std::string_view what = "config",
                       const std::vector<std::string>& assignments = {});
RunConfig load_config(const std::filesystem::path& path, const std::vector<std::string>& assignments = {});

// Applies overrides as on the command line, "training.steps=100": the task, its model and the form first, then the
// others in order. They are checked together, so that a width and the heads that divide it can be set one after the
// other. If one is refused, none is applied. A task that another model learns gives the defaults of that model; another
// model of the same task keeps vocabulary, context, width and dropout. Errors of one name `option`.
void set_options(RunConfig& config, const std::vector<std::string>& assignments, std::string_view option = "--set");

// Every key, with its value.
std::string to_toml(const RunConfig& config);

}  // namespace cogwheel::runs
