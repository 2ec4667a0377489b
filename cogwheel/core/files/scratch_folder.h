// A new folder among the system's temporary ones, or in another, removed with what it holds.
#pragma once
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "cogwheel/core/error.h"

namespace cogwheel {

class ScratchFolder {
 public:
  ScratchFolder() : ScratchFolder(system_folder()) {}
  explicit ScratchFolder(const std::filesystem::path& parent) {
    std::string pattern = (parent / "cogwheel-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(expected_got(parent.string(), "a folder that can be written", std::strerror(errno)));
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
  static std::filesystem::path system_folder() {
    std::error_code problem;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
    if (problem) throw Error(expected_got("TMPDIR", "a folder", problem.message()));
    return folder;
  }

  std::filesystem::path path_;
};

}  // namespace cogwheel
