#include "cogwheel/text/byte_pairs/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "cogwheel/core/encoding/utf8.h"

namespace cogwheel::text {
namespace {

constexpr int unseen = -1;

struct ByteAlphabet {
  std::array<char32_t, 256> characters{};
  std::array<int, 0x200> bytes{};

  ByteAlphabet() {
    bytes.fill(unseen);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      // But for the soft hyphen, 0xad.
      const bool prints = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      characters[byte] = prints ? byte : next++;
      bytes[characters[byte]] = static_cast<int>(byte);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

std::string printable_bytes(std::string_view bytes) {
  std::string printable;
  for (const char byte : bytes) append_utf8(printable, byte_alphabet().characters[static_cast<unsigned char>(byte)]);
  return printable;
}

std::optional<std::string> bytes_of_printable(std::string_view printable) {
  std::string bytes;
  for (std::size_t offset = 0; offset < printable.size();) {
    const CodePoint character = decode_utf8(printable, offset);
    if (character.bytes == 0 || character.value >= byte_alphabet().bytes.size()) return std::nullopt;
    const int byte = byte_alphabet().bytes[character.value];
    if (byte == unseen) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    offset += character.bytes;
  }
  return bytes;
}

}  // namespace cogwheel::text
