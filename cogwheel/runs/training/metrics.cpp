#include "cogwheel/runs/training/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/head_statistics_json.h"

namespace cogwheel::runs {
namespace {

const std::string final_prefix = "final_";

std::string to_line(const StepReport& report) {
  nlohmann::ordered_json line = {{"step", report.step},
                                 {"tokens", report.tokens},
                                 {"seconds", report.seconds},
                                 {"train_loss", report.train_loss},
                                 {"learning_rate", report.learning_rate},
                                 {"tokens_per_second", report.tokens_per_second}};
  for (const MeasuredValue& each : report.measured) line[each.measure] = each.value;
  for (const MeasuredValue& each : report.final_measured) line[final_prefix + each.measure] = each.value;
  if (!report.heads.empty()) line["heads"] = heads_to_json(report.heads);
  return line.dump() + "\n";
}

StepReport from_json(const nlohmann::ordered_json& line) {
  StepReport report;
  const std::pair<const char*, double*> numbers[] = {{"seconds", &report.seconds},
                                                     {"train_loss", &report.train_loss},
                                                     {"learning_rate", &report.learning_rate},
                                                     {"tokens_per_second", &report.tokens_per_second}};
  for (const auto& [name, number] : numbers) *number = line.at(name).get<double>();
  report.step = line.at("step").get<std::int64_t>();
  report.tokens = line.at("tokens").get<std::int64_t>();
  if (line.contains("heads")) report.heads = heads_from_json(line["heads"]);
  for (const auto& [key, value] : line.items()) {
    const auto is_key = [&, name = key](const auto& number) { return number.first == name; };
    if (key == "step" || key == "tokens" || key == "heads" || std::any_of(numbers, std::end(numbers), is_key)) continue;
    // The remaining keys are measures of the task.
    if (key.starts_with(final_prefix))
      report.final_measured.push_back({key.substr(final_prefix.size()), value.get<double>()});
    else
      report.measured.push_back({key, value.get<double>()});
  }
  return report;
}

[[noreturn]] void refuse_metrics(const std::filesystem::path& path) {
  throw Error(expected_got(path.string(), "a file that can be written", std::strerror(errno)));
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

void expect_reports(const std::filesystem::path& path, std::int64_t step, const std::vector<std::int64_t>& expected) {
  std::vector<std::int64_t> steps;
  std::error_code problem;
  if (std::filesystem::exists(path, problem))
    for (const StepReport& report : read_metrics(path))
      if (report.step <= step) steps.push_back(report.step);
  const auto [got, wanted] = std::mismatch(steps.begin(), steps.end(), expected.begin(), expected.end());
  if (got == steps.end() && wanted == expected.end()) return;
  const auto words = [](auto place, const auto& of, const char* none) {
    return place == of.end() ? std::string(none) : "a report of step " + std::to_string(*place);
  };
  throw Error(expected_got(
      path.string(),
      words(wanted, expected, "no further report") + " before the checkpoint of step " + std::to_string(step),
      words(got, steps, "none")));
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::int64_t step) : path_(path) {
  std::string kept;
  std::error_code problem;
  if (std::filesystem::exists(path, problem))
    for (const auto& report : read_metrics(path))
      if (report.step <= step) kept += to_line(report);
  write_file(path, kept);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) refuse_metrics(path_);
}

MetricsWriter::~MetricsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsWriter::write(const StepReport& report) {
  const std::string line = to_line(report);
  for (std::string_view left = line; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_metrics(path_);
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

void MetricsWriter::sync() {
  if (::fsync(descriptor_) != 0) refuse_metrics(path_);
}

}  // namespace cogwheel::runs
