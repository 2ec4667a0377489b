#include "cogwheel/authoring/headers.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "cogwheel/authoring/header_fingerprint.h"  // generated when the library is built
#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/sha256.h"

namespace cogwheel {
namespace fs = std::filesystem;
namespace {

// As cmake/header_fingerprint.cmake has it: one line "<path> <SHA-256>" for each header, in order.
std::string fingerprint_of(const fs::path& folder) {
  std::string lines;
  std::istringstream names{std::string(built_header_names)};
  for (std::string name; names >> name;) {
    std::error_code problem;
    if (!fs::is_regular_file(folder / name, problem)) return "";
    lines += name + " " + sha256(read_file(folder / name)) + "\n";
  }
  return sha256(lines);
}

}  // namespace

std::string header_fingerprint() { return std::string(built_header_fingerprint); }

fs::path own_library() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&header_fingerprint), &info) == 0 || info.dli_fname == nullptr)
    return "/proc/self/exe";
  std::error_code problem;
  const fs::path path = fs::canonical(info.dli_fname, problem);
  return problem ? fs::path(info.dli_fname) : path;
}

fs::path header_folder() {
  std::vector<fs::path> candidates;
  if (const char* wanted = std::getenv("COGWHEEL_HEADERS"); wanted != nullptr && *wanted != '\0')
    candidates.emplace_back(wanted);
  candidates.push_back(own_library().parent_path() / "include");
  candidates.emplace_back(COGWHEEL_SOURCE_FOLDER);
  for (const fs::path& candidate : candidates)
    if (fingerprint_of(candidate) == built_header_fingerprint) return candidate;
  throw Error(expected_got(
      "headers of Cogwheel", "those that this library was built from (COGWHEEL_HEADERS may name their folder)",
      "none or others in " + candidates.back().string() + "; build again where they were changed"));
}

}  // namespace cogwheel
