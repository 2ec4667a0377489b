// The configurations that come with Cogwheel, by name.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel {

struct Experiment {
  std::string name;
  std::string summary;  // the first comment of the file
  std::filesystem::path path;
};

// Sorted by name.
std::vector<Experiment> experiments();

// The path of a file if it exists, else of the experiment of that name. Throws UsageError with the nearest names.
std::filesystem::path find_config(const std::string& file_or_name);

}  // namespace cogwheel
