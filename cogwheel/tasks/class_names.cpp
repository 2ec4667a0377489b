#include "cogwheel/tasks/class_names.h"

#include <nlohmann/json.hpp>

#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"

namespace cogwheel {

RunFile class_names_file(const std::vector<std::string>& names) {
  return {classes_file, nlohmann::json(names).dump() + "\n"};
}

std::vector<std::string> load_class_names(const RunFolder& folder) {
  const std::filesystem::path path = folder.path() / classes_file;
  try {
    return nlohmann::json::parse(read_file(path)).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(path.string(), "a list of names", "something else"));
  }
}

}  // namespace cogwheel
