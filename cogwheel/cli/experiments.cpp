#include "cogwheel/cli/experiments.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::cli {
namespace {

// The folder of an installed package, whose executable lies in bin/ beside it; else that of the source tree.
std::filesystem::path experiments_folder() {
  std::error_code problem;
  const auto packaged =
      std::filesystem::read_symlink("/proc/self/exe", problem).parent_path().parent_path() / "experiments";
  return std::filesystem::is_directory(packaged, problem) ? packaged : std::filesystem::path(COGWHEEL_EXPERIMENTS);
}

std::string first_comment(const std::filesystem::path& path) {
  std::string first_line;
  std::ifstream file(path);
  std::getline(file, first_line);
  const std::size_t text = first_line.find_first_not_of("# ");
  return text == std::string::npos ? "" : first_line.substr(text);
}

// Those of a folder, not of the folders in it.
void add_files(std::vector<Experiment>& found, const std::filesystem::path& folder, const std::string& prefix) {
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (entry.path().extension() == ".toml")
      found.push_back({prefix + entry.path().stem().string(), first_comment(entry.path()), entry.path()});
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
    if (entry.is_directory(problem)) add_files(found, entry.path(), entry.path().filename().string() + "/");
  return sorted(std::move(found));
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
  std::vector<std::string> names;
  for (const Experiment& experiment : reproductions()) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  throw UsageError(expected_got("experiment", expected_names(name, names), name));
}

}  // namespace cogwheel::cli
