// metrics.jsonl, one report per line, and samples.jsonl; StepLines writes them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::runs {

// A report as a line, without its end, and a continued text.
std::string metrics_line(const StepReport& report);
std::string sample_line(const ContinuedText& text);

// The reports in order. Lines do not hold StepReport::steps, which stays 0. Throws Error where the file cannot be read;
// an incomplete last line is left out.
std::vector<StepReport> read_metrics(const std::filesystem::path& path);

// Throws Error unless the reports up to `step` are those of the steps in `expected`: a lost part of a curve cannot be
// recovered, and a gap in it would go unnoticed.
void expect_reports(const std::filesystem::path& path, std::int64_t step, const std::vector<std::int64_t>& expected);

}  // namespace cogwheel::runs
