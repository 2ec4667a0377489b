// The system's C++ compiler.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/core/process/process.h"

namespace cogwheel::authoring {

struct Compiler {
  std::vector<std::string> command;  // with the words of $CXX
  std::string identity;              // its path and version: part of the cache's key
};

// $CXX, else the first of c++, g++ and clang++ on PATH. Throws Error where there is none.
Compiler find_compiler();

// Messages are in English; `output` has both stdout and stderr. Throws Error where the compiler cannot be started.
Finished run_compiler(const std::vector<std::string>& command);

// The line in which a failed compiler reports a cause outside the source: a full disk or quota, too little memory, a
// signal, a missing part of the compiler. Empty where the source is at fault.
std::string refusal_of_the_world(const Finished& finished);

// One line of a compiler's output: the first error at a place in `file`, whose lines are `text`, with the user's own
// line; else the first error anywhere.
std::string first_error(const std::string& output, const std::filesystem::path& file, const std::string& text);

}  // namespace cogwheel::authoring
