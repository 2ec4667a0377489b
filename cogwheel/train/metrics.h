// metrics.jsonl: one report a line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cogwheel/train/training_run.h"

namespace cogwheel {

class MetricsWriter {
 public:
  // Goes on after the lines up to `step`; later ones, from before a resume, are dropped, and so is a torn last line.
  MetricsWriter(const std::filesystem::path& path, std::int64_t step);
  void write(const StepReport& report);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

// In order. StepReport::steps is not on a line and stays 0. Throws Error where the file cannot be read; a torn last
// line is left out.
std::vector<StepReport> read_metrics(const std::filesystem::path& path);

}  // namespace cogwheel
