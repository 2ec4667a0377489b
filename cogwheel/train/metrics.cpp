#include "cogwheel/train/metrics.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "cogwheel/train/head_statistics_json.h"

namespace cogwheel {
namespace {

std::string to_line(const StepReport& report) {
  nlohmann::ordered_json line = {{"step", report.step},
                                 {"tokens", report.tokens},
                                 {"seconds", report.seconds},
                                 {"train_loss", report.train_loss},
                                 {"learning_rate", report.learning_rate},
                                 {"tokens_per_second", report.tokens_per_second}};
  if (report.held_out_loss) line["held_out_loss"] = *report.held_out_loss;
  if (!report.heads.empty()) line["heads"] = heads_to_json(report.heads);
  return line.dump() + "\n";
}

StepReport from_json(const nlohmann::ordered_json& line) {
  StepReport report{.step = line.at("step").get<std::int64_t>(),
                    .tokens = line.at("tokens").get<std::int64_t>(),
                    .seconds = line.at("seconds").get<double>(),
                    .train_loss = line.at("train_loss").get<double>(),
                    .learning_rate = line.at("learning_rate").get<double>(),
                    .tokens_per_second = line.at("tokens_per_second").get<double>(),
                    .held_out_loss = {}};
  if (line.contains("held_out_loss")) report.held_out_loss = line["held_out_loss"].get<double>();
  if (line.contains("heads")) report.heads = heads_from_json(line["heads"]);
  return report;
}

}  // namespace

std::vector<StepReport> read_metrics(const std::filesystem::path& path) {
  std::vector<StepReport> reports;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    try {
      reports.push_back(from_json(nlohmann::ordered_json::parse(line)));
    } catch (const nlohmann::json::exception&) {
      throw Error(expected_got(path.string(), "a report on line " + std::to_string(reports.size() + 1), line));
    }
  }
  return reports;
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::int64_t step) : path_(path) {
  std::string kept;
  std::error_code problem;
  if (std::filesystem::exists(path, problem))
    for (const auto& report : read_metrics(path))
      if (report.step <= step) kept += to_line(report);
  write_file(path, kept);
  file_.open(path, std::ios::app);
}

void MetricsWriter::write(const StepReport& report) {
  file_ << to_line(report) << std::flush;
  if (!file_) throw Error(expected_got(path_.string(), "a file that can be written", "a failed write"));
}

}  // namespace cogwheel
