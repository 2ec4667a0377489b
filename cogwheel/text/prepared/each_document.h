// The texts of all documents of files, one at a time.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::text {

// Calls `take` with the text of each document, in the order of a corpus (source.h), until the call ends; `field` is
// that of JSON lines. Holds a few documents at a time. Throws what find_sources and DocumentBlocks throw, and Error
// that names file and line for a line without the field, or, there, text that is not UTF-8.
void for_each_document(const std::vector<std::filesystem::path>& paths, const std::string& field,
                       const std::function<void(std::string_view text)>& take);

}  // namespace cogwheel::text
