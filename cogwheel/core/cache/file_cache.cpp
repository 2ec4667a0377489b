#include "cogwheel/core/cache/file_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/scratch_folder.h"

namespace cogwheel {
namespace fs = std::filesystem;
namespace {

// Appended to a file, where loaders of libraries do not look.
constexpr std::string_view end_mark = "\ncogwheel module, SHA-256 of all before: ";
constexpr std::size_t hash_size = 64;

bool is_whole(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_regular_file(path, problem) || ::access(path.c_str(), R_OK) != 0) return false;
  const std::string contents = read_file(path);
  const std::size_t tail = end_mark.size() + hash_size;
  if (contents.size() < tail) return false;
  const std::string_view all = contents;
  const std::size_t end = all.size() - tail;
  return all.substr(end, end_mark.size()) == end_mark &&
         all.substr(end + end_mark.size()) == sha256(all.substr(0, end));
}

// Held by one process or thread at a time. Without locks in the file system it does nothing: renaming still keeps files
// whole, and at worst a file is made twice.
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
    if (descriptor_ < 0) return;
    ::flock(descriptor_, LOCK_UN);  // which a child that was forked meanwhile would hold
    ::close(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace

fs::path folder_of(const FileCache& cache_of) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache == '/')
    folder = cache;
  else if (home != nullptr && *home != '\0')
    folder = fs::path(home) / ".cache";
  else
    throw Error(expected_got("cache", "XDG_CACHE_HOME or HOME in the environment", "neither"));
  folder = folder / "cogwheel" / cache_of.folder;
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be made", problem.message()));
  return folder;
}

fs::path cached_file(const FileCache& cache, std::string_view key,
                     const std::function<void(const fs::path& folder, const fs::path& target)>& make) {
  const fs::path folder = folder_of(cache);
  const fs::path path = folder / (std::string(key) + std::string(cache.suffix));
  if (is_whole(path)) return path;
  const FileLock lock(folder / (std::string(key) + ".lock"));
  if (is_whole(path)) return path;  // the previous holder of the lock made it
  const ScratchFolder work(folder);
  const fs::path made = work / ("made" + std::string(cache.suffix));
  make(work.path().string(), made);
  const std::string contents = read_file(made);
  AtomicFile file(path);
  file.write(contents);
  file.write(end_mark);
  file.write(sha256(contents));
  file.commit();
  return path;
}

std::string contents_of_cached(const fs::path& path) {
  std::string contents = read_file(path);
  contents.resize(contents.size() - std::min(contents.size(), end_mark.size() + hash_size));
  return contents;
}

}  // namespace cogwheel
