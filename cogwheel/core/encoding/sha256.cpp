#include "cogwheel/core/encoding/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel {

static void expect_done(int result) {
  if (result != 1) throw Error(expected_got("OpenSSL", "SHA-256", "a failure"));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1) return;
  EVP_MD_CTX_free(context_);
  expect_done(0);
}
Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::add(std::string_view bytes) { expect_done(EVP_DigestUpdate(context_, bytes.data(), bytes.size())); }

std::array<std::uint8_t, 32> Sha256::bytes() {
  std::array<std::uint8_t, 32> hash{};
  expect_done(EVP_DigestFinal_ex(context_, hash.data(), nullptr));
  return hash;
}

std::string Sha256::digits() {
  std::string digits;
  for (const std::uint8_t byte : bytes()) {
    digits.push_back("0123456789abcdef"[byte >> 4]);
    digits.push_back("0123456789abcdef"[byte & 0xf]);
  }
  return digits;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digits();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 hash;
  read_pieces(path, [&](std::string_view piece) { hash.add(piece); });
  return hash.digits();
}

}  // namespace cogwheel
