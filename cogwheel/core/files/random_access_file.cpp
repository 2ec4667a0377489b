#include "cogwheel/core/files/random_access_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

// Whether there are more of them now.
bool allow_more_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int opened(const std::filesystem::path& path) {
  const auto open = [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); };
  const int descriptor = open();
  return descriptor < 0 && errno == EMFILE && allow_more_open_files() ? open() : descriptor;
}

Error unreadable(const std::filesystem::path& path, int problem) {
  return Error(expected_got(path.string(), "a file that can be read", std::strerror(problem)));
}

}  // namespace

RandomAccessFile::RandomAccessFile(std::filesystem::path path) : path_(std::move(path)), descriptor_(opened(path_)) {
  if (descriptor_ < 0) throw unreadable(path_, errno);
  struct stat status {};
  const int problem = ::fstat(descriptor_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (problem != 0) {
    ::close(descriptor_);
    throw unreadable(path_, problem);
  }
  size_ = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

void RandomAccessFile::read(std::uint64_t place, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw unreadable(path_, errno);
    if (got == 0) {
      struct stat status {};
      const bool known = ::fstat(descriptor_, &status) == 0;
      throw Error(expected_got(path_.string(), std::to_string(size_) + " bytes, as when it was opened",
                               known ? std::to_string(status.st_size) : "fewer"));
    }
    place += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace cogwheel
