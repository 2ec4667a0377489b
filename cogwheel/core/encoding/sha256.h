// SHA-256 (FIPS 180-4), which identifies contents: the text behind a result, a definition that was compiled.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cogwheel {

// The hash of bytes that arrive piece by piece.
class Sha256 {
 public:
  void add(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Call it last.
  std::string digits();

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, 64> rest_;  // the start of a block that is not full yet
  std::uint64_t bytes_ = 0;
};

// The hash of one text.
std::string sha256(std::string_view bytes);
// That of a file's contents. Throws Error where it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace cogwheel
