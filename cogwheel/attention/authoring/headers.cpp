#include "cogwheel/attention/authoring/headers.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include "cogwheel/attention/authoring/header_fingerprint.h"  // generated when the library is built
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::authoring {
namespace fs = std::filesystem;
namespace {

// As in cmake/header_fingerprint.cmake: one line "<path> <SHA-256>" for each header, in order.
std::string fingerprint_of(const fs::path& folder) {
  std::string lines;
  std::istringstream names{std::string(built_header_names)};
  for (std::string name; names >> name;) {
    std::error_code problem;
    if (!fs::is_regular_file(folder / name, problem)) return "";
    lines += name + " " + sha256_of_file(folder / name) + "\n";
  }
  return sha256(lines);
}

std::vector<fs::path> candidates() {
  std::vector<fs::path> folders;
  if (const char* wanted = std::getenv("COGWHEEL_HEADERS"); wanted != nullptr && *wanted != '\0')
    folders.emplace_back(wanted);
  folders.push_back(this_library().parent_path() / "include");
  folders.emplace_back(COGWHEEL_SOURCE_FOLDER);
  return folders;
}

std::optional<fs::path> find_headers() {
  for (const fs::path& folder : candidates())
    if (fingerprint_of(folder) == built_header_fingerprint) return folder;
  return std::nullopt;
}

}  // namespace

std::string header_fingerprint() { return std::string(built_header_fingerprint); }

fs::path this_library() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&header_fingerprint), &info) == 0 || info.dli_fname == nullptr)
    return "/proc/self/exe";
  std::error_code problem;
  const fs::path path = fs::canonical(info.dli_fname, problem);
  return problem ? fs::path(info.dli_fname) : path;
}

fs::path header_folder() {
  if (const auto folder = find_headers()) return *folder;
  throw Error(expected_got(
      "headers of Cogwheel", "those that this library was built from (COGWHEEL_HEADERS may name their folder)",
      "none or others in " + candidates().back().string() + "; build again where they were changed"));
}

std::string header_that_declares(std::string_view type) {
  const auto folder = find_headers();
  if (!folder) return "";
  std::istringstream names{std::string(built_header_names)};
  for (std::string name; names >> name;)
    if (declares_type(read_file(*folder / name), type)) return name;
  return "";
}

bool declares_type(std::string_view text, std::string_view type) {
  const auto is_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = 0; (at = text.find(type, at)) != std::string_view::npos; at += type.size()) {
    const std::size_t end = at + type.size();
    if (end < text.size() && is_word(text[end])) continue;
    std::size_t space = at;
    while (space > 0 && is_space(text[space - 1])) --space;
    if (space == at) continue;
    std::size_t begin = space;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    // After < or , it is a parameter of a template.
    std::size_t before = begin;
    while (before > 0 && is_space(text[before - 1])) --before;
    if (before > 0 && (text[before - 1] == '<' || text[before - 1] == ',')) continue;
    constexpr std::array<std::string_view, 5> words{"struct", "class", "enum", "concept", "using"};
    if (std::find(words.begin(), words.end(), text.substr(begin, space - begin)) != words.end()) return true;
  }
  return false;
}

}  // namespace cogwheel::authoring
