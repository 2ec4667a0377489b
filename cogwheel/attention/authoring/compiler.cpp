#include "cogwheel/attention/authoring/compiler.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cogwheel/attention/authoring/excerpt.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// The program's path by PATH; empty if there is none.
std::string on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  return "";
}

struct Diagnostic {
  int line = 0;
  std::string message;
};

// "<file>:12:5: error: message" at a place in the file, or a line of any other kind.
Diagnostic read_place(std::string_view line, std::string_view file) {
  if (!line.starts_with(file) || line.size() <= file.size() || line[file.size()] != ':') return {};
  line.remove_prefix(file.size() + 1);
  Diagnostic diagnostic;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), diagnostic.line);
  if (problem != std::errc()) return {};
  const std::size_t message = line.find(": ");
  diagnostic.message = message == std::string_view::npos ? "" : std::string(line.substr(message + 2));
  return diagnostic;
}

std::string without_kind(std::string message) {
  for (const std::string_view kind : {"fatal error: ", "error: ", "static assertion failed: ",
                                      "static_assert failed due to requirement ", "static_assert failed "})
    if (message.starts_with(kind)) message.erase(0, kind.size());
  return excerpt(message, 400);
}

std::string source_line(const std::string& text, int number) {
  std::istringstream lines(text);
  std::string line;
  for (int at = 0; at < number && std::getline(lines, line); ++at) {
  }
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : excerpt(line.substr(begin), 160);
}

}  // namespace

Finished run_compiler(const std::vector<std::string>& command) {
  return run_program(command, {.environment = {"LC_ALL=C", "LANGUAGE="}, .errors_in_output = true});
}

Compiler find_compiler() {
  std::vector<std::vector<std::string>> candidates;
  const char* chosen = std::getenv("CXX");
  if (chosen != nullptr && !words_of(chosen).empty())
    candidates.push_back(words_of(chosen));
  else
    candidates = {{"c++"}, {"g++"}, {"clang++"}};
  for (const auto& command : candidates) {
    const std::string path = on_path(command.front());
    if (path.empty()) continue;
    std::vector<std::string> asked = command;
    asked.emplace_back("--version");
    const Finished version = run_compiler(asked);
    if (version.status != 0) continue;
    std::error_code problem;
    const fs::path real = fs::canonical(path, problem);
    return {command, (problem ? path : real.string()) + "\n" + version.output};
  }
  throw Error(expected_got("compiler", "a C++20 compiler to compile the mechanism with ($CXX, c++, g++ or clang++)",
                           chosen != nullptr && *chosen != '\0' ? "CXX=" + std::string(chosen) + ", which does not run"
                                                                : std::string("none on this machine")));
}

std::string refusal_of_the_world(const Finished& finished) {
  // The words of the drivers, compilers, assemblers and linkers of GCC and LLVM. Where one was ended by a signal, or
  // ran out of space, the errors before that are consequences.
  constexpr std::array<std::string_view, 20> signs{"No space left on device",
                                                   "Disk quota exceeded",
                                                   "File too large",
                                                   "Read-only file system",
                                                   "out of memory",
                                                   "virtual memory exhausted",
                                                   "memory exhausted",
                                                   "Cannot allocate memory",
                                                   "bad_alloc",
                                                   "terminated with signal",
                                                   "signal terminated program",
                                                   "command failed due to signal",
                                                   "unable to execute command",
                                                   "internal compiler error",
                                                   "cannot execute",
                                                   "cannot find 'ld'",
                                                   "invalid linker name",
                                                   "unrecognized command",
                                                   "unknown argument",
                                                   "invalid value 'c++20'"};
  std::istringstream lines(finished.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" | ") != std::string::npos) continue;  // the user's own line, which a compiler shows
    for (const std::string_view sign : signs)
      if (line.find(sign) != std::string::npos) return excerpt(line, 200);
  }
  if (finished.status > 128) return std::string("a signal, ") + ::strsignal(finished.status - 128);
  return "";
}

std::string first_error(const std::string& output, const fs::path& file, const std::string& text) {
  const std::string name = file.string();
  std::string anywhere;
  int used_from = 0;  // the user's line that instantiated the failing template
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const Diagnostic place = read_place(line, name);
    const std::size_t error = line.find("error: ");
    if (error != std::string::npos && place.line > 0)
      return name + ":" + std::to_string(place.line) + ": expected C++ that compiles, got " +
             without_kind(place.message) + ", in: " + source_line(text, place.line);
    if (place.line > 0 && used_from == 0) used_from = place.line;
    if (error != std::string::npos && anywhere.empty()) {
      anywhere = without_kind(line.substr(error));
      // The lines after an error belong to it.
      if (anywhere.starts_with("expected ")) return name + ": " + anywhere;
    }
  }
  if (anywhere.find("hwy/") != std::string::npos && anywhere.find("No such file") != std::string::npos)
    return "compiler: expected the headers of Google Highway (Debian: libhwy-dev), got none";
  if (used_from > 0)
    return name + ":" + std::to_string(used_from) + ": expected C++ that compiles, got " + anywhere +
           ", in: " + source_line(text, used_from);
  if (anywhere.empty()) anywhere = excerpt(output.substr(0, output.find('\n')), 400);
  return name + ": expected C++ that compiles, got " + (anywhere.empty() ? "a compiler that fails" : anywhere);
}

}  // namespace cogwheel::authoring
