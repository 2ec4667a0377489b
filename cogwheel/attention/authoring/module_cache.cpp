#include "cogwheel/attention/authoring/module_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/scratch_folder.h"

namespace cogwheel::authoring {
namespace fs = std::filesystem;
namespace {

// Appended to a module, where loaders do not look.
constexpr std::string_view mark = "\ncogwheel module, SHA-256 of all before: ";

bool is_whole(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_regular_file(path, problem) || ::access(path.c_str(), R_OK) != 0) return false;
  const std::string contents = read_file(path);
  const std::size_t tail = mark.size() + 64;
  if (contents.size() < tail) return false;
  const std::string_view all = contents;
  const std::size_t end = all.size() - tail;
  return all.substr(end, mark.size()) == mark && all.substr(end + mark.size()) == sha256(all.substr(0, end));
}

// Held by one process or thread at a time. Without locks in the file system it does nothing: renaming still keeps files
// whole, and at worst a module is compiled twice.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ >= 0)
      while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
      }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace

fs::path module_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache == '/')
    folder = cache;
  else if (home != nullptr && *home != '\0')
    folder = fs::path(home) / ".cache";
  else
    throw Error(expected_got("cache of compiled mechanisms", "XDG_CACHE_HOME or HOME in the environment", "neither"));
  folder = folder / "cogwheel" / "mechanisms";
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be made", problem.message()));
  return folder;
}

fs::path cached_module(std::string_view key,
                       const std::function<void(const fs::path& folder, const fs::path& target)>& compile) {
  const fs::path folder = module_cache_folder();
  const fs::path path = folder / (std::string(key) + ".so");
  if (is_whole(path)) return path;
  const FileLock lock(folder / (std::string(key) + ".lock"));
  if (is_whole(path)) return path;  // the previous holder of the lock compiled it
  const ScratchFolder work(folder);
  const fs::path made = work / "module.so";
  compile(work.path().string(), made);
  const std::string contents = read_file(made);
  AtomicFile file(path);
  file.write(contents);
  file.write(mark);
  file.write(sha256(contents));
  file.commit();
  return path;
}

}  // namespace cogwheel::authoring
