// A file whose bytes are read where they are needed. What was read once comes from the memory of the system, which
// processes share. It is not mapped: memory that a file no longer backs, because it became shorter or its disk fails,
// ends the process that reads it, where a call to read says what is wrong.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace cogwheel {

class RandomAccessFile {
 public:
  // Throws Error where it is no file that can be read. Systems give a process 1,024 open files at first; where these
  // are used up, it takes as many as it may have.
  explicit RandomAccessFile(std::filesystem::path path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // as it was opened
  // All of `bytes`, which begin at `place`; from any thread. Throws Error where the file does not have them any more.
  void read(std::uint64_t place, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace cogwheel
