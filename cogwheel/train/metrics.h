// metrics.jsonl: one report a line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "cogwheel/train/step_report.h"

namespace cogwheel {

class MetricsWriter {
 public:
  // Goes on after the lines up to `step`; later ones, from before a resume, are dropped, and so is a torn last line.
  MetricsWriter(const std::filesystem::path& path, std::int64_t step);
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  ~MetricsWriter();

  void write(const StepReport& report);
  // To the disk: a checkpoint that comes after must not outlive the lines before it.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// In order. StepReport::steps is not on a line and stays 0. Throws Error where the file cannot be read; a torn last
// line is left out.
std::vector<StepReport> read_metrics(const std::filesystem::path& path);

// Throws Error unless the reports up to `step` are those of the steps in `expected`: what is lost of a curve cannot be
// made again, and a gap in it would not show.
void expect_reports(const std::filesystem::path& path, std::int64_t step, const std::vector<std::int64_t>& expected);

}  // namespace cogwheel
