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
  std::vector<std::string> notes = {};  // in a line each, what is not the same there
};

struct ExportOptions {
  WeightsFormat weights = {};
  std::string as = {};  // the name of an architecture; empty: the first that has the model
  bool overwrite = false;
};

// `weights`: the parameters of the model; `run`: a folder with the files that the run keeps, its tokenizer and the
// names of its classes; `as` as of ExportOptions. Throws Error that names the key where the model has what no
// architecture, or not that one, has, such as attention without softmax.
ExportedModel foreign_model(const runs::RunConfig& config, const NamedTensors& weights,
                            const std::filesystem::path& run, const std::string& as = {});

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
