// Files that are made once on a machine, such as compiled mechanisms: in $XDG_CACHE_HOME/cogwheel, else
// ~/.cache/cogwheel.
//
// A file's name is the hash of everything that determines its contents. It is written under a temporary name and
// renamed, ends with its own hash, and counts only if that matches; of concurrent processes the first makes it and the
// others wait.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cogwheel {

struct FileCache {
  std::string_view folder;  // in that of Cogwheel
  std::string_view suffix;  // of the files: ".so"
};

// Created if missing. Throws Error where that fails.
std::filesystem::path folder_of(const FileCache& cache);

// The complete file of that key. Unless the cache has it, `make` writes it to the given path. Throws what `make`
// throws.
std::filesystem::path cached_file(
    const FileCache& cache, std::string_view key,
    const std::function<void(const std::filesystem::path& folder, const std::filesystem::path& target)>& make);

// What `make` wrote.
std::string contents_of_cached(const std::filesystem::path& path);

}  // namespace cogwheel
