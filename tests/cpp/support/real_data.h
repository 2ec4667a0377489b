// Files of real data, which lie beside the repository where there are any.
#pragma once
#include <filesystem>
#include <string>

namespace cogwheel {

// shared/data/<name> in the nearest folder above this one that has it; empty: none, and the test is to be skipped.
inline std::filesystem::path real_data(const std::string& name) {
  for (auto folder = std::filesystem::current_path();; folder = folder.parent_path()) {
    const auto path = folder / "shared" / "data" / name;
    if (std::filesystem::exists(path)) return path;
    if (folder == folder.parent_path()) return {};
  }
}

}  // namespace cogwheel
