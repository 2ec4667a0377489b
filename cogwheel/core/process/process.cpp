#include "cogwheel/core/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment, with `changes` applied.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> environment = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited = *entry;
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    bool changed = false;
    for (const std::string& change : changes) changed |= change.starts_with(name);
    if (!changed) environment.emplace_back(inherited);
  }
  return environment;
}

// A file, not a pipe: a pipe would need a reader that drains two streams at once.
int memory_file() { return ::memfd_create("output", MFD_CLOEXEC); }

std::string contents_of(int file) {
  std::string contents;
  char piece[4096];
  for (off_t place = 0;;) {
    const ssize_t count = ::pread(file, piece, sizeof piece, place);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return contents;
    contents.append(piece, static_cast<std::size_t>(count));
    place += count;
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Options& options)
    : output_(memory_file()), errors_(options.errors_in_output || options.errors_shown ? -1 : memory_file()) {
  int problem = output_ < 0 || (errors_ < 0 && !options.errors_in_output && !options.errors_shown) ? errno : 0;
  if (problem == 0) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output_, STDOUT_FILENO);
    if (!options.errors_shown)
      ::posix_spawn_file_actions_adddup2(&actions, options.errors_in_output ? output_ : errors_, STDERR_FILENO);
    if (!options.folder.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
    // Signals that this process ignores would be ignored by the program too.
    posix_spawnattr_t attributes;
    sigset_t usual;
    ::sigemptyset(&usual);
    for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&usual, signal);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigdefault(&attributes, &usual);
    ::posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | (options.own_group ? POSIX_SPAWN_SETPGROUP : 0)));
    std::vector<std::string> words = command, environment = environment_with(options.environment);
    problem = ::posix_spawnp(&child_, words.front().c_str(), &actions, &attributes, pointers(words).data(),
                             pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  if (problem == 0) return;
  child_ = 0;
  close_files();
  throw Error(expected_got(command.front(), "a program that starts", std::strerror(problem)));
}

Process::~Process() {
  kill();
  if (child_ != 0) wait_for(child_);
  close_files();
}

void Process::interrupt() const {
  if (child_ != 0) ::kill(child_, SIGINT);
}

void Process::kill() const {
  if (child_ != 0) ::kill(child_, SIGKILL);
}

bool Process::has_ended() const {
  siginfo_t ended{};
  return ::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0;
}

Finished Process::wait() {
  const int status = wait_for(child_);
  Finished finished{.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                    .output = contents_of(output_)};
  if (errors_ >= 0) finished.errors = contents_of(errors_);
  child_ = 0;
  return finished;
}

void Process::close_files() {
  for (const int file : {output_, errors_})
    if (file >= 0) ::close(file);
}

std::string last_line(std::string_view written, std::string_view program) {
  while (written.ends_with('\n')) written.remove_suffix(1);
  written.remove_prefix(written.rfind('\n') + 1);
  if (!program.empty() && written.starts_with(std::string(program) + ": ")) written.remove_prefix(program.size() + 2);
  return one_line(written);
}

Finished run_program(const std::vector<std::string>& command, const Process::Options& options) {
  return Process(command, options).wait();
}

void become_program(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  ::execvp(words.front().c_str(), pointers(words).data());
}

}  // namespace cogwheel
