#include "cogwheel/runs/curves/run_curve.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::runs {
namespace fs = std::filesystem;
namespace {

using LineJson = nlohmann::ordered_json;

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// The whole lines of a file, each given to `take`; none where there is no such file.
template <class Take>
void read_lines(const fs::path& path, const char* what, const Take& take) {
  std::error_code problem;
  if (!fs::exists(path, problem)) return;
  std::istringstream lines(read_file(path));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    ++number;
    try {
      take(LineJson::parse(line));
    } catch (const nlohmann::json::exception&) {
      throw Error(expected_got(path.string(), fmt::format("{} on line {}", what, number), line));
    }
  }
}

// JSON has no NaN or infinity: null stands for them.
double number_of(const LineJson& value) { return value.is_null() ? nothing : value.get<double>(); }

std::string text_of(const LineJson& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// "returned to 50" of {"returned_to": 50}; words stand for themselves.
std::string told_value(std::string key, const LineJson& value) {
  if (value.is_string()) return value.get<std::string>();
  std::replace(key.begin(), key.end(), '_', ' ');
  return key + " " + (value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump());
}

// The mean over all heads of all layers, of a statistic as a report holds it.
double mean_of_heads(const LineJson& layers) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LineJson& layer : layers)
    for (const LineJson& head : layer)
      if (!head.is_null()) sum += head.get<double>(), ++count;
  return count > 0 ? sum / static_cast<double>(count) : nothing;
}

class ReportReader {
 public:
  explicit ReportReader(RunCurve& run) : run_(run) {}

  void take(const LineJson& line) {
    const auto step = line.at("step").get<double>();
    while (!run_.steps.empty() && run_.steps.back() >= step) drop_last();  // made again after a return to a checkpoint
    run_.steps.push_back(step);
    run_.tokens.push_back(line.at("tokens").get<double>());
    run_.seconds.push_back(line.at("seconds").get<double>());
    for (const auto& [key, value] : line.items()) {
      if (key == "step" || key == "tokens" || key == "seconds") continue;
      if (key == "heads")
        for (const auto& [statistic, layers] : value.items()) set("mean_" + statistic, mean_of_heads(layers));
      else if (value.is_number() || value.is_null())
        set(key, number_of(value));
    }
    for (CurveNumber& number : run_.numbers) number.values.resize(run_.steps.size(), nothing);
  }

 private:
  void drop_last() {
    for (auto* axis : {&run_.steps, &run_.tokens, &run_.seconds}) axis->pop_back();
    for (CurveNumber& number : run_.numbers) number.values.pop_back();
  }

  void set(const std::string& name, double value) {
    const auto [found, added] = places_.try_emplace(name, run_.numbers.size());
    if (added) run_.numbers.push_back({name, {}});
    run_.numbers[found->second].values.resize(run_.steps.size(), nothing);
    run_.numbers[found->second].values.back() = value;
  }

  RunCurve& run_;
  std::map<std::string, std::size_t> places_;
};

void read_events(RunCurve& run) {
  read_lines(run.folder / "changes.jsonl", "a change", [&](const LineJson& line) {
    std::string text;
    for (const auto& [key, values] : line.at("changes").items())
      text += fmt::format("{}{} {} → {}", text.empty() ? "" : ", ", key, text_of(values.at(0)), text_of(values.at(1)));
    run.events.push_back({RunEvent::Kind::changed, line.at("step"), text});
  });
  read_lines(run.folder / "spikes.jsonl", "a spike", [&](const LineJson& line) {
    std::string text;
    for (const auto& [key, value] : line.items())
      if (key != "step") text += (text.empty() ? "" : ", ") + told_value(key, value);
    run.events.push_back({RunEvent::Kind::spike, line.at("step"), text});
  });
  std::stable_sort(run.events.begin(), run.events.end(),
                   [](const RunEvent& a, const RunEvent& b) { return a.step < b.step; });
  read_lines(run.folder / "samples.jsonl", "a sample", [&](const LineJson& line) {
    run.samples.push_back({line.at("step"), line.at("prompt"), line.at("text")});
  });
}

// The newest line was written when the file was; the others as many seconds of training before as they say.
void set_times(RunCurve& run, const fs::path& metrics) {
  struct stat status {};
  const double written = ::stat(metrics.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
  for (const double seconds : run.seconds) run.times.push_back(written - (run.seconds.back() - seconds));
}

RunCurve read_curve(const fs::path& folder) {
  RunCurve run{.name = name_of_run(folder), .folder = folder, .config = load_config(folder / "config.toml")};
  run.parameters = parameter_count(run.config.model);
  const fs::path metrics = folder / "metrics.jsonl";
  ReportReader reader(run);
  read_lines(metrics, "a report", [&](const LineJson& line) { reader.take(line); });
  set_times(run, metrics);
  read_events(run);
  return run;
}

}  // namespace

const CurveNumber* RunCurve::find(std::string_view wanted) const {
  for (const CurveNumber& number : numbers)
    if (number.name == wanted) return &number;
  return nullptr;
}

std::vector<fs::path> folders_of_runs(const std::vector<fs::path>& places) {
  std::vector<fs::path> folders;
  std::vector<fs::path> seen;
  const auto add = [&](const fs::path& folder) {
    std::error_code problem;
    const fs::path whole = fs::canonical(folder, problem);
    if (std::find(seen.begin(), seen.end(), whole) != seen.end()) return;
    seen.push_back(whole);
    folders.push_back(folder);
  };
  for (const fs::path& place : places) {
    std::error_code problem;
    if (folder_kind(place) != comparison_kind) {
      if (!fs::is_regular_file(place / "config.toml", problem))
        throw Error(expected_got(place.string(), "the folder of a run or of a comparison", "no config.toml in it"));
      add(fs::is_symlink(place, problem) ? fs::canonical(place, problem) : place);
      continue;
    }
    std::vector<fs::path> runs;
    for (fs::directory_iterator entry(place / trained_folder, problem), end; !problem && entry != end;
         entry.increment(problem))
      if (fs::is_regular_file(entry->path() / "config.toml", problem)) runs.push_back(entry->path());
    if (runs.empty()) throw Error(expected_got(place.string(), "a comparison that has begun a run", "none in it"));
    std::sort(runs.begin(), runs.end());
    for (const fs::path& run : runs) add(run);
  }
  return folders;
}

std::vector<RunCurve> read_curves(const std::vector<fs::path>& folders) {
  std::vector<RunCurve> runs;
  for (const fs::path& folder : folders) runs.push_back(read_curve(folder));
  // Two of one name are told apart by more of their paths.
  std::vector<std::string> names;
  for (const RunCurve& run : runs) names.push_back(run.name);
  for (std::size_t index = 0; index < runs.size(); ++index)
    if (std::count(names.begin(), names.end(), names[index]) > 1) runs[index].name = folders[index].string();
  if (std::all_of(runs.begin(), runs.end(), [](const RunCurve& run) { return run.steps.empty(); }))
    throw Error(expected_got(runs.front().folder.string(), "a report in metrics.jsonl",
                             "none yet; the first is written after training.report_every steps"));
  return runs;
}

}  // namespace cogwheel::runs
