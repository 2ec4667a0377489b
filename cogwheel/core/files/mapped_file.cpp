#include "cogwheel/core/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "cogwheel/core/error.h"

namespace cogwheel {

MappedFile::MappedFile(const std::filesystem::path& path, std::size_t bytes) : size_(bytes) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(expected_got(path.string(), expected, got));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse("a file that can be read", std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closing(&descriptor, [](const int* open) { ::close(*open); });
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) refuse("a file that can be read", std::strerror(errno));
  if (std::cmp_not_equal(facts.st_size, bytes)) refuse(std::to_string(bytes) + " bytes", std::to_string(facts.st_size));
  if (bytes == 0) return;
  start_ = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (start_ == MAP_FAILED) {
    start_ = nullptr;
    refuse("a file that can be mapped", std::strerror(errno));
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (start_ != nullptr) ::munmap(start_, size_);
}

}  // namespace cogwheel
