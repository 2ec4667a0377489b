// Compiled mechanisms on disk: $XDG_CACHE_HOME/cogwheel/mechanisms, else ~/.cache/cogwheel/mechanisms.
//
// A file's name is the hash of everything that determines its contents: the source, the compiler and its flags,
// Cogwheel's headers, the instruction set. A file is written under a temporary name and renamed, ends with its own
// hash, and is loaded only if that matches; of concurrent processes the first compiles and the others wait.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cogwheel::authoring {

// Created if missing. Throws Error where that fails.
std::filesystem::path module_cache_folder();

// The complete file of that key. Unless the cache has it, `compile` writes it to the given path. Throws what `compile`
// throws.
std::filesystem::path cached_module(
    std::string_view key,
    const std::function<void(const std::filesystem::path& folder, const std::filesystem::path& target)>& compile);

}  // namespace cogwheel::authoring
