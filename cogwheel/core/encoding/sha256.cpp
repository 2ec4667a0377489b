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

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  expect_done(EVP_DigestFinal_ex(context_, hash.data(), &size));
  std::string digits;
  for (unsigned int at = 0; at < size; ++at) {
    digits.push_back("0123456789abcdef"[hash[at] >> 4]);
    digits.push_back("0123456789abcdef"[hash[at] & 0xf]);
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
