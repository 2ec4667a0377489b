#include "cogwheel/core/encoding/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel {
namespace {

constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void compress(State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> schedule{};
  for (int i = 0; i < 16; ++i)
    schedule[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
                  std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = schedule[i - 15], b = schedule[i - 2];
    schedule[i] = schedule[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + schedule[i - 7] +
                  (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                                round_constants[i] + schedule[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const State round = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += round[i];
}

}  // namespace

void Sha256::add(std::string_view bytes) {
  if (bytes.empty()) return;
  constexpr std::size_t block = 64;
  const auto filled = static_cast<std::size_t>(bytes_ % block);
  bytes_ += bytes.size();
  if (filled > 0) {
    const std::size_t taken = std::min(block - filled, bytes.size());
    std::memcpy(rest_.data() + filled, bytes.data(), taken);
    bytes.remove_prefix(taken);
    if (filled + taken < block) return;
    compress(state_, reinterpret_cast<const unsigned char*>(rest_.data()));
  }
  for (; bytes.size() >= block; bytes.remove_prefix(block))
    compress(state_, reinterpret_cast<const unsigned char*>(bytes.data()));
  std::memcpy(rest_.data(), bytes.data(), bytes.size());
}

std::string Sha256::digits() {
  // A one bit, zeros, and the length in bits, up to the end of a block.
  const std::uint64_t bits = bytes_ * 8;
  std::string tail(1 + (119 - bytes_ % 64) % 64, '\0');
  tail.front() = static_cast<char>(0x80);
  for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(static_cast<char>(bits >> shift & 0xff));
  add(tail);
  std::string digits;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) digits.push_back("0123456789abcdef"[word >> shift & 0xf]);
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
