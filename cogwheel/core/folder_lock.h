// A folder that this program fills: a file `.cogwheel` in it says what it is, and is what its processes lock.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

inline constexpr std::string_view folder_marker = ".cogwheel";

// What the marker says that a folder is, such as "run"; empty where there is none.
std::string folder_kind(const std::filesystem::path& folder);

// Held until it is destroyed or the process ends, in whatever way.
class FolderLock {
 public:
  // Marks the folder as `kind` where it is not marked yet, and locks it. Throws Error where it is marked as something
  // else, or another process holds the lock. A file system without locks gives none.
  FolderLock(const std::filesystem::path& folder, std::string_view kind);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

// A folder for new results, made where it is missing, locked and marked. Throws UsageError where it holds something
// already, unless `overwrite` and it is marked as `kind`; Error where it cannot be written or locked. Nothing is
// removed: see remove_files.
std::shared_ptr<const FolderLock> take_folder(const std::filesystem::path& folder, std::string_view kind,
                                              bool overwrite);

// Removes what a process that was killed left of files of these names. Under the folder's lock: a process at work has
// such files too.
void remove_leftovers(const std::filesystem::path& folder, const std::vector<std::string>& names);
// And the files themselves. All else stays.
void remove_files(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace cogwheel
