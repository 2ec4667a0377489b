// A model that another program trained, as a run here.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/interchange/tensor_table.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::interchange {

struct ImportedModel {
  std::string architecture;
  runs::RunConfig config;                 // the model, and the name and options of the task that it has learned
  NamedTensors weights;                   // of all parameters, float32
  std::vector<runs::RunFile> files = {};  // that a run of this task keeps
  std::vector<std::string> notes = {};    // in a line each, what is not the same here or left out
};

// Of a folder with config.json, whose `architectures` names one of architectures(), model.safetensors, whole or in
// parts, in float32, float16 or bfloat16, and of a BERT its vocabulary. Throws Error that names the file and the key or
// tensor which is missing, unknown, or not as the models here have it.
ImportedModel read_foreign_model(const std::filesystem::path& folder);

// Makes the folder of a run whose checkpoint holds the weights alone. Throws what RunFolder::create throws.
runs::RunFolder write_imported_run(const ImportedModel& imported, const std::filesystem::path& folder,
                                   bool overwrite = false);

}  // namespace cogwheel::interchange
