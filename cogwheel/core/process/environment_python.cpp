#include "cogwheel/core/process/environment_python.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace cogwheel {

std::string environment_python() {
  namespace fs = std::filesystem;
  if (const char* named = std::getenv("COGWHEEL_PYTHON"); named != nullptr && *named != '\0') return named;
  const auto* called = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (called != nullptr) {
    const fs::path beside = fs::path(called).parent_path() / "python3";
    std::error_code problem;
    if (beside.has_parent_path() && fs::exists(beside, problem)) return beside.string();
  }
  return "python3";
}

std::vector<std::string> python_running(std::string_view code) {
  // `sys` and `os` are there before the working folder is on the path, as the option -P of Python 3.11 has it. An empty
  // entry of PYTHONPATH is the working folder too, by its name.
  std::string whole =
      "import sys, os\n"
      "sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != "
      "os.path.realpath(os.curdir)]\n";
  whole += code;
  return {environment_python(), "-c", std::move(whole)};
}

}  // namespace cogwheel
