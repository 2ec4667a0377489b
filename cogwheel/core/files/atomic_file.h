// A file that is written completely or not at all: under a temporary name in the same folder, then synced and renamed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cogwheel {

// How the temporary name of a file ends.
inline constexpr const char* unfinished_extension = ".part";
// Whether a file's name is the temporary one of a file called `of`.
bool is_temporary_name(std::string_view name, std::string_view of);

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without commit, the new contents are discarded and an older file stays

  const std::filesystem::path& path() const { return path_; }
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Over what was written from that byte on; nothing is appended.
  void overwrite(std::uint64_t place, std::string_view text);
  // Nothing more will be written: all is on the disk, still under the temporary name. Of several files that belong
  // together, each is finished before any is committed.
  void finish();
  void commit();

 private:
  void close();

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

// Throws Error where a file of that name cannot be written. Asked before something that takes long to make.
void expect_writable(const std::filesystem::path& path);

// All throw Error with the system's reason, WriteError of what is written.
void write_file(const std::filesystem::path& path, std::string_view contents);

// Gives a file a second name, which replaces another file of that name; a copy where the file system has no such links.
void link_file(const std::filesystem::path& from, const std::filesystem::path& to);

// Whether there is something; false also where that cannot be found out.
bool path_exists(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path);
// The first bytes alone, at most so many: no more of a long file is read.
std::string read_file_start(const std::filesystem::path& path, std::size_t bytes);
// The same contents piece by piece, without ever holding all.
void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take);

}  // namespace cogwheel
