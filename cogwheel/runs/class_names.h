// The names of the classes of a task, kept with a run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

RunFile class_names_file(const std::vector<std::string>& names);
// Those of a run's folder. Throws Error where it has no such file, it is damaged, or has not so many names.
std::vector<std::string> load_class_names(const std::filesystem::path& folder, std::int64_t classes);
// Those of a folder that has them, as that of a run does once it is made; none: empty. Throws Error where the file is
// damaged.
std::vector<std::string> known_class_names(const std::filesystem::path& folder);

}  // namespace cogwheel::runs
