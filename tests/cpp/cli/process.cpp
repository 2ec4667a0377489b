#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace cogwheel {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void redirect(const std::filesystem::path& path, int descriptor) {
  ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder, rlim_t most_bytes)
    : output_(folder / ".output"), errors_(folder / ".errors") {
  std::vector<std::string> words = {COGWHEEL_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  child_ = ::fork();
  if (child_ != 0) return;
  redirect(output_, STDOUT_FILENO);
  redirect(errors_, STDERR_FILENO);
  const rlimit limit{most_bytes, most_bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  if (::chdir(folder.c_str()) == 0) ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

void Process::interrupt() const { ::kill(child_, SIGINT); }

Outcome Process::wait() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(output_), contents(errors_)};
}

Outcome cogwheel(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  return Process(arguments, folder).wait();
}

}  // namespace cogwheel
