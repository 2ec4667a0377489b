// The bytes of a file, as the system keeps them: read when they are needed, and once for all processes that share them.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace cogwheel {

class MappedFile {
 public:
  // Throws Error where it cannot be read, or has another number of bytes. A file that is cut while it is mapped ends
  // the process that reads beyond its end, so a file is replaced under another name and never rewritten.
  MappedFile(const std::filesystem::path& path, std::size_t bytes);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(start_), size_}; }

 private:
  void* start_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cogwheel
