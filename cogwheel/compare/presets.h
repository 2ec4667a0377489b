// The sizes at which mechanisms are compared, and for some tasks their options.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel {

struct Preset {
  std::string_view name;
  std::string_view summary;
  ModelOptions model;
  TrainingOptions training;       // steps and what follows from them are set by with_steps
  std::int64_t evaluated_tokens;  // of the held-out part, at most, in the last evaluation of a run
  double seconds;                 // the duration of a whole comparison if no steps are given
  std::int64_t steps = 0;         // of a run, if none are given, instead of as many as fit into `seconds`
  std::string_view form = "gpt";  // of the models, if none is given
  std::vector<std::string> attention{"softmax", "cog", "differential", "symmetric"};  // if none is named
  TaskOptions task = {};                                                              // language modelling: of any task

  bool has_task() const { return task.name != TaskOptions{}.name; }
};

// The default comes first.
std::span<const Preset> presets();

// Throws UsageError with the nearest names.
const Preset& find_preset(std::string_view name);

// The schedule for that many steps: ten evaluations, a warm-up of at most a tenth, reports often enough for a display.
TrainingOptions with_steps(TrainingOptions training, std::int64_t steps);

}  // namespace cogwheel
