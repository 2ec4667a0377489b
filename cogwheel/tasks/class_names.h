// The names of the classes of a task, kept with a run.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/storage/run_folder.h"

namespace cogwheel {

RunFile class_names_file(const std::vector<std::string>& names);
// Throws Error where the run has no such file, it is damaged, or has not so many names.
std::vector<std::string> load_class_names(const RunFolder& folder, std::int64_t classes);

}  // namespace cogwheel
