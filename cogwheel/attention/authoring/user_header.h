// Reads and checks a user's header before a compiler sees it.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace cogwheel::authoring {

struct UserHeader {
  std::string name;  // of the mechanism, as of the file
  std::string map;   // of its struct
  std::string text;
  bool is_recurrent = false;  // it includes recurrent_contract.h, or a built-in law that does: its struct holds a law
};

// Throws UsageError, one line, unless the file is <name>.h and has a struct <Name>, where Cogwheel's headers use the
// name, or where it includes another file of the user's: only the text that was read is compiled.
UserHeader read_user_header(const std::filesystem::path& path);

// Throws UsageError where no header can have that name: it is not a mechanism's name, or it names a struct that
// Cogwheel's own headers declare.
void check_header_name(std::string_view name);

}  // namespace cogwheel::authoring
