// Compiled mechanisms on disk: $XDG_CACHE_HOME/cogwheel/mechanisms, else ~/.cache/cogwheel/mechanisms.
//
// A name is the hash of all that decides the contents: the source, the compiler and its flags, Cogwheel's headers, the
// instruction set. A file is written beside and renamed, ends with its own hash, and is loaded only where that fits;
// processes that come at once wait for the first to compile.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cogwheel {

// Made where it is not there. Throws Error where it cannot be.
std::filesystem::path module_cache_folder();

// The file of that key, whole: what `compile` writes to the path that it is given, unless the cache has it. Throws what
// `compile` throws.
std::filesystem::path cached_module(
    std::string_view key,
    const std::function<void(const std::filesystem::path& folder, const std::filesystem::path& target)>& compile);

}  // namespace cogwheel
