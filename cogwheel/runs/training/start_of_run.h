// The start of a training run as a file, for other implementations that make the same steps.
#pragma once
#include <cstdint>
#include <filesystem>

namespace cogwheel::runs {

class TrainingRun;

// The weights as "model.<name>", and of so many first batches "batch.<step>.<member>" of Batch.
void save_start(const TrainingRun& run, std::int64_t batches, const std::filesystem::path& path);

}  // namespace cogwheel::runs
