#include "cli/process.h"

#include <algorithm>

namespace cogwheel::cli {
namespace {

// Processes started while such an object exists inherit the limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t max_bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{std::min(max_bytes, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

std::vector<std::string> command_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {COGWHEEL_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace

CogwheelProcess::CogwheelProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                                 rlim_t max_bytes)
    : process_([&] {
        const FileSizeLimit limit(max_bytes);
        return Process(command_of(arguments), {.folder = folder, .environment = {"OMP_NUM_THREADS=1"}});
      }()) {}

Outcome CogwheelProcess::wait() {
  const Finished finished = process_.wait();
  return {finished.status, finished.output, finished.errors};
}

Outcome cogwheel(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  return CogwheelProcess(arguments, folder).wait();
}

}  // namespace cogwheel::cli
