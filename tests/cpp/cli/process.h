// Runs the executable as a user does.
#pragma once
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/core/process/process.h"

namespace cogwheel::cli {

struct Outcome {
  int exit_code;  // 128 + signal where a signal ended it
  std::string output, errors;
};

class CogwheelProcess {
 public:
  // Starts `cogwheel <arguments>` in a folder, on one thread. No file may grow beyond `max_bytes`.
  CogwheelProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                  rlim_t max_bytes = RLIM_INFINITY);
  void interrupt() const { process_.interrupt(); }
  Outcome wait();

 private:
  Process process_;
};

Outcome cogwheel(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

}  // namespace cogwheel::cli
