// metrics.jsonl, one report per line, and samples.jsonl; StepLines writes them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
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

// The step of the last whole line of a file that may still grow, by reading its end alone; none where there is no line.
std::optional<std::int64_t> last_reported_step(const std::filesystem::path& path);

// Throws Error unless the reports up to `step` are those of the steps in `expected`: a lost part of a curve cannot be
// recovered, and a gap in it would go unnoticed.
void expect_reports(const std::filesystem::path& path, std::int64_t step, const std::vector<std::int64_t>& expected);

}  // namespace cogwheel::runs
