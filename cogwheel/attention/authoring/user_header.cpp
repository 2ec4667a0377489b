#include "cogwheel/attention/authoring/user_header.h"

#include <algorithm>

#include "cogwheel/attention/authoring/definition.h"
#include "cogwheel/attention/authoring/excerpt.h"
#include "cogwheel/attention/authoring/header_text.h"
#include "cogwheel/attention/authoring/headers.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::authoring {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t max_bytes = 1 << 20;

std::string_view without_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\v\f");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// Removes `word` from the beginning of the text, with the space before it.
bool take(std::string_view& text, std::string_view word) {
  const std::string_view rest = without_space(text);
  if (!rest.starts_with(word)) return false;
  text = rest.substr(word.size());
  return true;
}

// Returns whether it includes headers of the recurrent family.
bool check_includes(const std::string& path, std::string_view text) {
  bool of_laws = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view rest = line;
    if (!take(rest, "#") || !take(rest, "include") || !take(rest, "\"")) continue;
    of_laws |= rest.starts_with("cogwheel/attention/mechanisms/recurrent");
    if (!rest.starts_with("cogwheel/"))
      throw UsageError(expected_got(path + ":" + std::to_string(number),
                                    "a mechanism in one file, with headers of cogwheel/ or in <>",
                                    excerpt(without_space(line))));
  }
  return of_laws;
}

}  // namespace

void check_header_name(std::string_view name) {
  check_mechanism_name(name);
  const std::string map = struct_name(name), taken_by = header_that_declares(map);
  if (!taken_by.empty())
    throw UsageError(expected_got("mechanism", "a name whose struct Cogwheel's own headers leave free",
                                  std::string(name) + ": " + taken_by + " has a " + map));
}

UserHeader read_user_header(const fs::path& path) {
  if (path.extension() != ".h")
    throw UsageError(expected_got("mechanism file", "a header <name>.h", excerpt(path.string())));
  UserHeader header;
  header.name = path.stem().string();
  check_header_name(header.name);
  header.map = struct_name(header.name);
  std::error_code problem;
  if (fs::exists(path, problem) && !fs::is_regular_file(path, problem))
    throw UsageError(
        expected_got(path.string(), "a file", fs::is_directory(path, problem) ? "a folder" : "something else"));
  if (const std::uintmax_t bytes = fs::file_size(path, problem); !problem && bytes > max_bytes)
    throw UsageError(expected_got(path.string(), "a header of at most 1 MiB", std::to_string(bytes) + " bytes"));
  header.text = read_file(path);
  header.is_recurrent = check_includes(path.string(), header.text);
  if (!declares_type(header.text, header.map))
    throw UsageError(expected_got(path.string(), "struct " + header.map + ", named after the file", "none"));
  return header;
}

}  // namespace cogwheel::authoring
