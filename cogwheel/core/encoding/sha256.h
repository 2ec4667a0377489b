// SHA-256 (FIPS 180-4), by OpenSSL, which identifies contents: the text behind a result, a definition that was
// compiled.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace cogwheel {

// The hash of bytes that arrive piece by piece.
class Sha256 {
 public:
  // Throws std::bad_alloc without memory, Error where OpenSSL has no SHA-256.
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // 64 lower-case hexadecimal digits, or the bytes that they stand for. Either is called last.
  std::string digits();
  std::array<std::uint8_t, 32> bytes();

 private:
  evp_md_ctx_st* context_;
};

// The hash of one text.
std::string sha256(std::string_view bytes);
// That of a file's contents. Throws Error where it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace cogwheel
