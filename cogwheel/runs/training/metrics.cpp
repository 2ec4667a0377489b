#include "cogwheel/runs/training/metrics.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/head_statistics_json.h"

namespace cogwheel::runs {
namespace {

const std::string final_prefix = "final_";

// Reports of old runs have not all of them.
struct NamedNumber {
  const char* name;
  double StepReport::*member;
  bool always = true;        // whether every report has it
  bool where_not_0 = false;  // whether it is left out otherwise
};
constexpr NamedNumber named_numbers[] = {
    {"seconds", &StepReport::seconds},
    {"train_loss", &StepReport::train_loss},
    {"learning_rate", &StepReport::learning_rate},
    {"tokens_per_second", &StepReport::tokens_per_second},
    {"gradient_norm", &StepReport::gradient_norm, false},
    {"update_over_weight", &StepReport::update_over_weight, false},
    {"waiting_seconds", &StepReport::waiting_seconds, false},
    {"exposed_communication_seconds", &StepReport::exposed_communication_seconds, false, true},
    {"slowest_rank_seconds", &StepReport::slowest_rank_seconds, false, true}};

StepReport from_json(const nlohmann::ordered_json& line) {
  StepReport report;
  for (const NamedNumber& each : named_numbers)
    report.*each.member = each.always ? line.at(each.name).get<double>() : line.value(each.name, 0.0);
  report.step = line.at("step").get<std::int64_t>();
  report.tokens = line.at("tokens").get<std::int64_t>();
  report.phase = line.value("phase", "");
  if (line.contains("heads")) report.heads = heads_from_json(line["heads"]);
  for (const auto& [key, value] : line.items()) {
    const auto is_key = [&, name = key](const NamedNumber& number) { return number.name == name; };
    if (key == "step" || key == "tokens" || key == "heads" || key == "phase" ||
        std::any_of(std::begin(named_numbers), std::end(named_numbers), is_key))
      continue;
    // The remaining keys are measures of the task.
    if (key.starts_with(final_prefix))
      report.final_measured.push_back({key.substr(final_prefix.size()), value.get<double>()});
    else
      report.measured.push_back({key, value.get<double>()});
  }
  return report;
}

}  // namespace

std::string metrics_line(const StepReport& report) {
  nlohmann::ordered_json line = {{"step", report.step}, {"tokens", report.tokens}};
  if (!report.phase.empty()) line["phase"] = report.phase;
  for (const NamedNumber& each : named_numbers)
    if (!each.where_not_0 || report.*each.member != 0) line[each.name] = report.*each.member;
  for (const MeasuredValue& each : report.measured) line[each.measure] = each.value;
  for (const MeasuredValue& each : report.final_measured) line[final_prefix + each.measure] = each.value;
  if (!report.heads.empty()) line["heads"] = heads_to_json(report.heads);
  return line.dump();
}

std::string sample_line(const ContinuedText& text) {
  const nlohmann::ordered_json line = {{"step", text.step}, {"prompt", text.prompt}, {"text", text.text}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

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

std::optional<std::int64_t> last_reported_step(const std::filesystem::path& path) {
  constexpr std::streamoff longest_line = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size <= 0) return std::nullopt;
  file.seekg(std::max<std::streamoff>(0, size - longest_line));
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.erase(std::min(text.size(), text.rfind('\n')));
  const std::size_t begin = text.rfind('\n') + 1;  // 0 where there is none
  const auto line = nlohmann::json::parse(text.substr(begin), nullptr, false);
  const auto step = line.is_object() ? line.find("step") : line.end();
  return step != line.end() && step->is_number_integer() ? std::optional(step->get<std::int64_t>()) : std::nullopt;
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

}  // namespace cogwheel::runs
