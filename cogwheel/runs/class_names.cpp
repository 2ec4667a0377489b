#include "cogwheel/runs/class_names.h"

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::runs {

RunFile class_names_file(const std::vector<std::string>& names) {
  return {classes_file, nlohmann::json(names).dump() + "\n"};
}

namespace {

std::vector<std::string> read_class_names(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_file(path)).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a list of names", "something else"));
  }
}

}  // namespace

std::vector<std::string> load_class_names(const std::filesystem::path& folder, std::int64_t classes) {
  const std::filesystem::path path = folder / classes_file;
  std::vector<std::string> names = read_class_names(path);
  if (std::ssize(names) != classes)
    throw Error(expected_got(path.string(), std::to_string(classes) + " names, as the model has classes",
                             std::to_string(names.size())));
  return names;
}

std::vector<std::string> known_class_names(const std::filesystem::path& folder) {
  std::error_code problem;
  if (folder.empty() || !std::filesystem::exists(folder / classes_file, problem)) return {};
  return read_class_names(folder / classes_file);
}

}  // namespace cogwheel::runs
