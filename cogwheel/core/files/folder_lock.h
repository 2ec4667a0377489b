// Ownership of a folder that this program fills: its file `.cogwheel` names its kind and is what processes lock.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

inline constexpr std::string_view folder_marker = ".cogwheel";

// The kind that the marker of a folder names, such as "run"; empty where there is no marker.
std::string folder_kind(const std::filesystem::path& folder);

// Held until it is destroyed or the process ends, even if it is killed.
class FolderLock {
 public:
  // Marks the folder as `kind` unless it is marked already, and locks it. Throws Error where it is marked as something
  // else, or another process holds the lock. On a file system without locks nothing is locked.
  FolderLock(const std::filesystem::path& folder, std::string_view kind);
  // The same, but waits where another process holds the lock: calls `waiting` before each further try, which gives it
  // time, and may throw.
  FolderLock(const std::filesystem::path& folder, std::string_view kind, const std::function<void()>& waiting);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

// Whether a process holds the lock of a folder, this one included, or it cannot be told; never where there is no
// marker.
bool is_locked(const std::filesystem::path& folder);

// Throws Error where the file system of a folder that has a marker knows no locks, which work shared by processes
// needs.
void expect_locks(const std::filesystem::path& folder);

// Creates it, and those above it, where it is missing. Throws Error where that cannot be, or a file has the name.
void make_folder(const std::filesystem::path& folder);

// Throws what make_folder would, or Error where nothing could be written into it, and makes nothing. Asked before
// something that takes long to make.
void expect_makable(const std::filesystem::path& folder);

// A folder for new results: created where it is missing, locked and marked. Throws UsageError where it is not empty,
// unless `overwrite` is set and it is marked as `kind`; Error where it cannot be written or locked. Nothing is
// removed: see remove_files.
std::shared_ptr<const FolderLock> take_folder(const std::filesystem::path& folder, std::string_view kind,
                                              bool overwrite);

// What take_folder would throw, but for locks; makes nothing. Asked before something that takes long to make.
void expect_room(const std::filesystem::path& folder, std::string_view kind, bool overwrite);

// Removes the temporary files of these names that a killed process left. Call it under the folder's lock: a running
// process has such files too.
void remove_leftovers(const std::filesystem::path& folder, const std::vector<std::string>& names);
// Also removes the files themselves. Everything else stays.
void remove_files(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace cogwheel
