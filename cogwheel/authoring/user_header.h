// What is read of a user's header before a compiler sees it.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace cogwheel {

struct UserHeader {
  std::string name;  // of the mechanism, which is that of the file
  std::string map;   // of its struct
  std::string text;
};

// Throws UsageError, one line, where the file is no <name>.h with struct <Name> in it, where the name is one that
// Cogwheel's headers use, or where it includes a file of its own: what is compiled is what was read, and no more.
UserHeader read_user_header(const std::filesystem::path& path);

// Throws UsageError where no header of that name can be: what is no name of a mechanism, or names a struct that
// Cogwheel's own headers declare.
void check_header_name(std::string_view name);

}  // namespace cogwheel
