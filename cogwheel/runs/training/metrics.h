// metrics.jsonl: one report per line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::runs {

class MetricsWriter {
 public:
  // Continues after the lines up to `step`; later ones, from before a resume, are dropped, as is an incomplete last
  // line.
  MetricsWriter(const std::filesystem::path& path, std::int64_t step);
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  ~MetricsWriter();

  void write(const StepReport& report);
  // Syncs to disk: a later checkpoint must not survive a crash that loses the lines before it.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// The reports in order. Lines do not hold StepReport::steps, which stays 0. Throws Error where the file cannot be read;
// an incomplete last line is left out.
std::vector<StepReport> read_metrics(const std::filesystem::path& path);

// Throws Error unless the reports up to `step` are those of the steps in `expected`: a lost part of a curve cannot be
// recovered, and a gap in it would go unnoticed.
void expect_reports(const std::filesystem::path& path, std::int64_t step, const std::vector<std::int64_t>& expected);

}  // namespace cogwheel::runs
