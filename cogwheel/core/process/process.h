// Runs other programs: without a shell, with empty standard input, and with their output captured.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

struct Finished {
  int status = 0;  // 0: success; 128 + the signal, where a signal ended it
  int signal = 0;  // that ended it; 0: none
  std::string output = {}, errors = {};
};

class Process {
 public:
  struct Options {
    std::filesystem::path folder = {};          // its working folder; empty: the current one
    std::vector<std::string> environment = {};  // "NAME=value", added or replacing entries of the inherited one
    bool errors_in_output = false;              // errors go into the output, in the order written
    bool errors_shown = false;                  // errors go where those of this process go, and are not captured
    bool own_group = false;                     // a terminal's Ctrl-C goes to this process alone
  };

  // Starts a program, looked up on PATH. Throws Error where it cannot be started.
  Process(const std::vector<std::string>& command, const Options& options);
  explicit Process(const std::vector<std::string>& command) : Process(command, Options()) {}
  // Kills the program unless wait() was called.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return child_; }
  void interrupt() const;
  void kill() const;
  // Whether it has ended, so that wait() returns at once.
  bool has_ended() const;
  Finished wait();

 private:
  void close_files();

  pid_t child_ = 0;
  int output_ = -1, errors_ = -1;
};

// The last line of what a program wrote, as one_line makes it, without "<program>: " before it.
std::string last_line(std::string_view written, std::string_view program = {});

// Starts a program and waits for it.
Finished run_program(const std::vector<std::string>& command, const Process::Options& options = {});

// Replaces this process by another program. Returns only where that cannot be started.
void become_program(const std::vector<std::string>& command);

}  // namespace cogwheel
