#include "cogwheel/core/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

[[noreturn]] void refuse_to_read(const std::filesystem::path& path) {
  throw Error(expected_got(path.string(), "a file that can be read", std::strerror(errno)));
}

[[noreturn]] void refuse_to_write(const std::filesystem::path& path,
                                  std::string_view expected = "a file that can be written") {
  throw WriteError(expected_got(path.string(), expected, std::strerror(errno)));
}

// The temporary name of a file is ".<name>.<process>.part".
constexpr std::string_view after_process = unfinished_extension;

std::string before_process(std::string_view name) { return std::string(1, '.').append(name).append(1, '.'); }

std::filesystem::path temporary_of(const std::filesystem::path& path) {
  return path.parent_path() /
         before_process(path.filename().string()).append(std::to_string(::getpid())).append(after_process);
}

// A new name is only safe once its folder is synced too.
void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const int folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace

bool is_temporary_name(std::string_view name, std::string_view of) {
  const std::string before = before_process(of);
  if (!name.starts_with(before) || !name.ends_with(after_process)) return false;
  name.remove_prefix(before.size());
  if (name.size() <= after_process.size()) return false;
  name.remove_suffix(after_process.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = temporary_of(path_);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse_to_write(path_);
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  close();
  ::unlink(temporary_.c_str());
}

void AtomicFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* position = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, position, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_to_write(path_);
    position += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::overwrite(std::uint64_t place, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(place));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_to_write(path_);
    place += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::finish() {
  if (descriptor_ < 0) return;
  if (::fsync(descriptor_) != 0) refuse_to_write(path_);
  close();
}

void AtomicFile::commit() {
  finish();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) refuse_to_write(path_, "a file that can be replaced");
  committed_ = true;
  sync_folder_of(path_);
}

void link_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::filesystem::path temporary = temporary_of(to);
  ::unlink(temporary.c_str());
  if (::link(from.c_str(), temporary.c_str()) != 0) {
    AtomicFile copy(to);
    read_pieces(from, [&](std::string_view piece) { copy.write(piece); });
    return copy.commit();
  }
  if (::rename(temporary.c_str(), to.c_str()) != 0) {
    const int problem = errno;
    ::unlink(temporary.c_str());
    errno = problem;
    refuse_to_write(to, "a file that can be replaced");
  }
  ::unlink(temporary.c_str());  // rename does nothing where both names are of one file
  sync_folder_of(to);
}

void expect_writable(const std::filesystem::path& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem))
    throw Error(expected_got(path.string(), "a file that can be written", "a folder"));
  const AtomicFile probe(path);
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

namespace {

// Until `take` says that it has enough.
void read_until(const std::filesystem::path& path, const std::function<bool(std::string_view)>& take) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse_to_read(path);
  const std::unique_ptr<const int, void (*)(const int*)> closing(&descriptor, [](const int* open) { ::close(*open); });
  std::vector<char> piece(1 << 20);
  for (;;) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_to_read(path);
    if (count == 0 || !take({piece.data(), static_cast<std::size_t>(count)})) return;
  }
}

}  // namespace

void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take) {
  read_until(path, [&](std::string_view piece) {
    take(piece);
    return true;
  });
}

std::string read_file_start(const std::filesystem::path& path, std::size_t bytes) {
  std::string contents;
  read_until(path, [&](std::string_view piece) {
    contents += piece.substr(0, bytes - contents.size());
    return contents.size() < bytes;
  });
  return contents;
}

bool path_exists(const std::filesystem::path& path) {
  std::error_code problem;
  return std::filesystem::exists(path, problem);
}

std::string read_file(const std::filesystem::path& path) {
  std::string contents;
  read_pieces(path, [&](std::string_view piece) { contents += piece; });
  return contents;
}

}  // namespace cogwheel
