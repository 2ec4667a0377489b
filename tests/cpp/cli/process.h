// The executable, run as a person runs it.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel {

struct Outcome {
  int exit_code;  // 128 + signal where one ended it
  std::string output, errors;
};

class Process {
 public:
  // Starts `cogwheel <arguments>` in a folder, on one thread. No file may grow beyond `most_bytes`.
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
          rlim_t most_bytes = RLIM_INFINITY);
  void interrupt() const;
  Outcome wait();

 private:
  pid_t child_;
  std::filesystem::path output_, errors_;
};

Outcome cogwheel(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

}  // namespace cogwheel
