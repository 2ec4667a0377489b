// The model of a run, as another program reads it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/interchange/exported_weights.h"
#include "cogwheel/interchange/tensor_table.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::interchange {

struct ExportedModel {
  std::string architecture;
  std::vector<OutgoingTensor> weights;  // by their names, in the order of the table
  std::vector<runs::RunFile> files;
};

struct ExportOptions {
  WeightsFormat weights = {};
  bool overwrite = false;
};

// `weights`: the parameters of the model; `run`: a folder with the files that the run keeps, its tokenizer and the
// names of its classes. Throws Error where the model has what no architecture knows, such as attention without softmax.
ExportedModel foreign_model(const runs::RunConfig& config, const NamedTensors& weights,
                            const std::filesystem::path& run);

// Writes config.json, the weights and what else the architecture has. The weights are the averaged ones where the run
// has them. Throws UsageError where `folder` is not empty, unless it holds an export and `overwrite` is set.
//
// All files are on the disk under temporary names before the first of an older export goes, so that a full disk leaves
// it whole. While they get their names there is no config.json, without which no program reads the folder: it goes
// first and comes last.
ExportedModel export_run(const runs::RunFolder& run, const std::filesystem::path& folder,
                         const ExportOptions& options = {});

// The second half of it.
void write_exported_model(const ExportedModel& model, const std::filesystem::path& folder,
                          const ExportOptions& options = {});

}  // namespace cogwheel::interchange
