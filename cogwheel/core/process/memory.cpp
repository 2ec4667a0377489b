#include "cogwheel/core/process/memory.h"

#include <fstream>
#include <string>
#include <string_view>

namespace cogwheel {
namespace {

// Of a line such as "VmHWM:  123 kB".
std::optional<std::int64_t> field_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> available_memory_bytes() { return field_of("/proc/meminfo", "MemAvailable:"); }
std::optional<std::int64_t> resident_memory_bytes() { return field_of("/proc/self/status", "VmRSS:"); }

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // 5: the peak resident size
  return file.good();
}

std::optional<std::int64_t> peak_memory_bytes() { return field_of("/proc/self/status", "VmHWM:"); }

}  // namespace cogwheel
