#include "cogwheel/core/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/article.h"

namespace cogwheel {
namespace fs = std::filesystem;
namespace {

// The first line of an open marker.
std::string marked_kind(int descriptor) {
  std::array<char, 64> text;
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  const std::string_view read(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return std::string(read.substr(0, read.find('\n')));
}

// Sorted by name.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code problem;
  fs::directory_iterator entries(folder, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem))
    names.insert(entries->path().filename().string());
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  return names;
}

void remove_file(const fs::path& path) {
  std::error_code problem;
  fs::remove(path, problem);
  if (problem) throw Error(expected_got(path.string(), "a file that can be removed", problem.message()));
}

// Calls `refused`, and tries again, where another process holds it. Who only looks at it (is_locked) holds it for a
// moment, which does not count.
void lock(int descriptor, const std::function<void()>& refused) {
  int looks = 5;
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // no locks on this file system
    if (looks-- > 0)
      ::usleep(2000);
    else
      refused();
  }
}

// Written in place, because the lock is on this very file. A killed process leaves it empty or cut short.
void mark(int descriptor, const fs::path& folder, std::string_view kind) {
  const std::string marked = marked_kind(descriptor), text = std::string(kind) + "\n";
  if (marked == kind) return;
  if (!kind.starts_with(marked) && names_in(folder).size() > 1)
    throw Error(expected_got(folder.string(), with_article(kind), with_article(marked)));
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::fsync(descriptor) != 0)
    throw WriteError(expected_got(folder.string(), "a folder that can be written", std::strerror(errno)));
}

// Of a shared lock of the marker of a folder, taken for a moment: errno; 0 where nothing hinders it, or there is no
// marker.
int problem_of_lock(const fs::path& folder) {
  const int descriptor = ::open((folder / folder_marker).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  int problem = 0;
  while (::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && (problem = errno) == EINTR) problem = 0;
  ::close(descriptor);
  return problem;
}

}  // namespace

bool is_locked(const fs::path& folder) { return problem_of_lock(folder) != 0; }

void expect_locks(const fs::path& folder) {
  if (const int problem = problem_of_lock(folder); problem != 0 && problem != EWOULDBLOCK)
    throw Error(expected_got(folder.string(), "a file system with locks", std::strerror(problem)));
}

std::string folder_kind(const fs::path& folder) {
  const int descriptor = ::open((folder / folder_marker).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return "";
  std::string kind = marked_kind(descriptor);
  ::close(descriptor);
  return kind;
}

FolderLock::FolderLock(const fs::path& folder, std::string_view kind)
    : FolderLock(folder, kind, [&] {
        throw Error(expected_got(folder.string(), with_article(kind) + " that is not in use",
                                 "one that another process is using"));
      }) {}

FolderLock::FolderLock(const fs::path& folder, std::string_view kind, const std::function<void()>& waiting)
    : descriptor_(::open((folder / folder_marker).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (descriptor_ < 0)
    throw WriteError(expected_got(folder.string(), "a folder that can be written", std::strerror(errno)));
  try {
    lock(descriptor_, waiting);
    mark(descriptor_, folder, kind);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void expect_makable(const fs::path& folder) {
  std::error_code problem;
  fs::path place = folder.has_filename() ? folder : folder.parent_path();
  while (!fs::exists(place, problem) && place.has_relative_path()) place = place.parent_path();
  if (place.empty()) place = ".";
  if (!fs::is_directory(place, problem))
    throw Error(expected_got(folder.string(), "a folder that can be made", "a file of that name"));
  if (::access(place.c_str(), W_OK | X_OK) != 0)
    throw WriteError(expected_got(folder.string(), "a folder that can be written", std::strerror(errno)));
}

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem || !fs::is_directory(folder))
    throw Error(expected_got(folder.string(), "a folder that can be made",
                             problem ? problem.message() : "a file of that name"));
}

void expect_room(const fs::path& folder, std::string_view kind, bool overwrite) {
  std::error_code problem;
  if (!fs::exists(folder, problem)) return expect_makable(folder);
  std::set<std::string> names = names_in(folder);
  names.erase(std::string(folder_marker));
  // What a process left that was killed before it had written anything.
  if (folder_kind(folder) == kind)
    std::erase_if(
        names, [](const std::string& name) { return name.starts_with('.') && name.ends_with(unfinished_extension); });
  if (names.empty()) return;
  const std::string got = "one that holds " + *names.begin();
  if (!overwrite) throw UsageError(expected_got(folder.string(), "a new or empty folder (or --overwrite)", got));
  const std::string marked = folder_kind(folder);
  if (marked != kind)
    throw UsageError(
        expected_got(folder.string(), with_article(kind) + " to overwrite",
                     marked.empty() ? got + " and no " + std::string(folder_marker) : with_article(marked)));
}

std::shared_ptr<const FolderLock> take_folder(const fs::path& folder, std::string_view kind, bool overwrite) {
  make_folder(folder);
  expect_room(folder, kind, overwrite);
  auto lock = std::make_shared<const FolderLock>(folder, kind);
  expect_room(folder, kind, overwrite);  // again: another process may have written before the lock was taken
  return lock;
}

void remove_leftovers(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& entry : names_in(folder))
    for (const std::string& name : names)
      if (is_temporary_name(entry, name)) remove_file(folder / entry);
}

void remove_files(const fs::path& folder, const std::vector<std::string>& names) {
  remove_leftovers(folder, names);
  for (const std::string& name : names) remove_file(folder / name);
}

}  // namespace cogwheel
