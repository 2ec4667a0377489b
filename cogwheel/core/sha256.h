// SHA-256 (FIPS 180-4), to name contents: the text that a result was made from, a definition that was compiled.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cogwheel {

// Of bytes that come piece by piece.
class Sha256 {
 public:
  void add(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Ends it.
  std::string digits();

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, 64> rest_;  // what does not fill a block yet
  std::uint64_t bytes_ = 0;
};

// Of all at once.
std::string sha256(std::string_view bytes);

}  // namespace cogwheel
