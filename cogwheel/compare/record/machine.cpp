#include "cogwheel/compare/record/machine.h"

#include <ATen/Parallel.h>
#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/ops/layers/matrix_product_library.h"

namespace cogwheel::compare {
namespace {

// The value of the first line "<key> … : value" or "KEY=value"; empty where there is none.
std::string field(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t place = line.find(separator);
    const std::size_t start = line.find_first_not_of(" \t\"", place + 1);
    if (place == std::string::npos || start == std::string::npos) continue;
    return line.substr(start, line.find_last_not_of(" \t\"") - start + 1);
  }
  return "";
}

std::string or_else(std::string text, const char* otherwise) { return text.empty() ? otherwise : text; }

// In the usual spelling.
std::string instruction_name(std::string_view isa) {
  if (isa == "avx512") return "AVX-512";
  if (isa == "avx2") return "AVX2";
  if (isa == "neon") return "NEON";
  return std::string(isa);
}

std::string architecture() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "unknown";
}

}  // namespace

Comparison::Machine this_machine() {
  return {.cpu = or_else(field("/proc/cpuinfo", "model name", ':'), architecture().c_str()),
          .instructions = instruction_name(chosen_isa()),
          .matrix_products = std::string(ops::matrix_product_library()),
          .system = or_else(field("/etc/os-release", "PRETTY_NAME=", '='), "unknown") + ", " + architecture(),
          .cores = static_cast<std::int64_t>(std::thread::hardware_concurrency()),
          .threads = at::get_num_threads(),
          .memory_bytes = physical_memory_bytes()};
}

}  // namespace cogwheel::compare
