// A new folder among the system's temporary ones, removed with what it holds.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "cogwheel/core/error.h"

namespace cogwheel {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cogwheel-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error(expected_got(pattern, "a folder that can be made", "none"));
    path_ = pattern;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code problem;
    std::filesystem::remove_all(path_, problem);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace cogwheel
