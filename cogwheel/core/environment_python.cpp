#include "cogwheel/core/environment_python.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

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

}  // namespace cogwheel
