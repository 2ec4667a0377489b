// Other programs: started without a shell, with nothing to read, and what they write kept.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel {

struct Finished {
  int status = 0;  // 0: well; 128 and the signal, where one ended it
  std::string output = {}, errors = {};
};

class Process {
 public:
  struct Options {
    std::filesystem::path folder = {};          // where it works; empty: here
    std::vector<std::string> environment = {};  // "NAME=value", beside or in place of this process's own
    bool errors_in_output = false;              // both as they came
  };

  // Starts a program that is found as a shell finds it. Throws Error where it cannot be started.
  Process(const std::vector<std::string>& command, const Options& options);
  explicit Process(const std::vector<std::string>& command) : Process(command, Options()) {}
  // Kills it where nobody has waited for it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void interrupt() const;
  Finished wait();

 private:
  void close_files();

  pid_t child_ = 0;
  int output_ = -1, errors_ = -1;
};

// Starts a program and waits for it.
Finished run_program(const std::vector<std::string>& command, const Process::Options& options = {});

// Goes on as another program. Returns only where that cannot be started.
void become_program(const std::vector<std::string>& command);

}  // namespace cogwheel
