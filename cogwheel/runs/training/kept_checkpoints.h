// The checkpoints that a run keeps: checkpoints/<step>.safetensors, the newest ones, of which the last also is
// checkpoint.safetensors, and checkpoints/best.safetensors.
#pragma once
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/runs/run_folder.h"

namespace cogwheel::runs {

class TrainingRun;

// Writes a checkpoint under its step, makes it the best one too where it `is_best`, then the newest, and removes those
// that options().keep_checkpoints leaves out. At every moment the folder has a whole newest checkpoint, and no newest
// one whose run takes it for the best while another is kept as that. Throws what TrainingRun::save throws, and leaves
// the older ones.
void keep_checkpoint(const TrainingRun& run, const RunFolder& folder, bool is_best = false);

// Loads one of the folder's: what TrainingRun::load returns and throws. Throws Error where another tokenizer lies in
// the folder, before anything changes.
std::vector<std::string> load_checkpoint(TrainingRun& run, const RunFolder& folder, const std::filesystem::path& path,
                                         const std::set<std::string>& may_differ = {});
// Loads the newest checkpoint that is whole, of a step below `before` if there is one: what TrainingRun::load returns,
// after a sentence for each damaged one. Throws DamagedFile where none is whole, Error where there is none, and what
// else load_checkpoint throws.
std::vector<std::string> load_newest(TrainingRun& run, const RunFolder& folder,
                                     const std::set<std::string>& may_differ = {},
                                     std::int64_t before = std::numeric_limits<std::int64_t>::max());

}  // namespace cogwheel::runs
