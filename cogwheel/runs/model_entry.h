// A topology as the rest of the program knows it: what makes its models, and how Python runs them. It stands beside its
// model, which makes it by model_entry_of (runs/named_pass.h), and tasks/tasks.def names it for each task that it
// learns.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

struct NamedPass;

struct PassInput {
  std::string name;
  bool optional = false;
};

struct ModelEntry {
  std::string_view name;      // of the topology: the name of its options and of its class in Python, in lower case
  ModelOptions (*options)();  // the defaults
  // For options that were checked; weights are uninitialised.
  std::shared_ptr<torch::nn::Module> (*make)(const ModelOptions& options);
  // The same, to be run by cogwheel.load of Python; null where Python does not load such models.
  NamedPass (*pass)(const RunConfig& config) = nullptr;
  std::vector<PassInput> inputs = {};  // of a pass, in the order in which Python takes them
  // The norm after the last block, which the head alone reads: where training.base_width scales what the head gives
  // (runs/training/width_scaling.h). Empty: models of this topology are not scaled so.
  std::string_view norm_before_head = {};
};

}  // namespace cogwheel::runs
