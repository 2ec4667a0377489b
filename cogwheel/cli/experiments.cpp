#include "cogwheel/cli/experiments.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/toml_text.h"

namespace cogwheel::cli {
namespace {

// In the folder of experiments, but none: files of `train --machine`.
constexpr const char* machines_folder = "machines";

// The folder of an installed package, whose executable lies in bin/ beside it; else that of the source tree.
std::filesystem::path experiments_folder() {
  std::error_code problem;
  const auto packaged =
      std::filesystem::read_symlink("/proc/self/exe", problem).parent_path().parent_path() / "experiments";
  return std::filesystem::is_directory(packaged, problem) ? packaged : std::filesystem::path(COGWHEEL_EXPERIMENTS);
}

// The summary, and what is needed, of the comments before anything else.
Experiment experiment_of(std::string name, const std::filesystem::path& path) {
  Experiment experiment{.name = std::move(name), .summary = {}, .path = path};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && line.starts_with('#');) {
    const std::size_t text = line.find_first_not_of("# ");
    if (text == std::string::npos) continue;
    constexpr std::string_view needs = "needs: ";
    if (experiment.summary.empty()) {
      experiment.summary = line.substr(text);
    } else if (line.substr(text).starts_with(needs)) {
      std::istringstream list(line.substr(text + needs.size()));
      std::error_code problem;
      for (std::string need; std::getline(list >> std::ws, need, ',');)
        if (!std::filesystem::exists(need, problem)) experiment.needs.push_back(need);
    }
  }
  return experiment;
}

// Those of a folder, not of the folders in it.
void add_files(std::vector<Experiment>& found, const std::filesystem::path& folder, const std::string& prefix) {
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (entry.path().extension() == ".toml")
      found.push_back(experiment_of(prefix + entry.path().stem().string(), entry.path()));
}

std::vector<Experiment> sorted(std::vector<Experiment> found) {
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

}  // namespace

std::vector<Experiment> experiments() {
  std::vector<Experiment> found;
  add_files(found, experiments_folder(), "");
  return sorted(std::move(found));
}

std::vector<Experiment> reproductions() {
  std::vector<Experiment> found;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(experiments_folder(), problem))
    if (entry.is_directory(problem) && entry.path().filename() != machines_folder)
      add_files(found, entry.path(), entry.path().filename().string() + "/");
  return sorted(std::move(found));
}

ReproductionFacts facts_of(const Experiment& experiment) {
  const toml::table file = runs::parse_toml(read_file(experiment.path), experiment.path.string());
  const toml::table* const source = file["source"].as_table();
  ReproductionFacts facts;
  if (const toml::array* const items = source == nullptr ? file["items"].as_array() : (*source)["items"].as_array())
    for (const toml::node& item : *items) facts.items.push_back(item.value_or(std::string()));
  facts.minutes = file["desk"]["minutes"].value_or(file["minutes"].value_or(0.0));
  return facts;
}

std::filesystem::path find_config(const std::string& file_or_name) {
  std::error_code problem;
  if (std::filesystem::exists(file_or_name, problem) && !std::filesystem::is_directory(file_or_name, problem))
    return file_or_name;
  std::vector<std::string> names;
  for (const auto& experiment : experiments()) {
    if (experiment.name == file_or_name) return experiment.path;
    names.push_back(experiment.name);
  }
  throw UsageError(
      expected_got("config", "a file, or an experiment: " + expected_names(file_or_name, names), file_or_name));
}

Experiment find_reproduction(const std::string& name) {
  if (is_experiment_file(name)) {
    const std::filesystem::path path = std::filesystem::absolute(name).lexically_normal();
    return experiment_of((path.parent_path().filename() / path.stem()).string(), path);
  }
  std::vector<std::string> names;
  for (const Experiment& experiment : reproductions()) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  throw UsageError(expected_got("experiment", expected_names(name, names), name));
}

}  // namespace cogwheel::cli
