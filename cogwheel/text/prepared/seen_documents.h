// Which documents were seen, by 16 bytes of their hash.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cogwheel::text {

// The first half of a SHA-256: two different documents of 10¹² share one with probability 10⁻¹⁵.
struct DocumentHash {
  std::uint64_t high = 0, low = 0;
  bool operator==(const DocumentHash&) const = default;
};

// A table in 256 parts that grow one by one by a quarter, so that 16 bytes of hash take 19 to 24 bytes of memory, also
// while it grows.
class SeenDocuments {
 public:
  // False where it was there.
  bool insert(const DocumentHash& hash);
  std::size_t size() const { return size_; }
  std::size_t bytes() const;

 private:
  struct Part {
    std::vector<DocumentHash> places;
    std::size_t size = 0;
  };
  static bool put(std::vector<DocumentHash>& places, const DocumentHash& hash);

  std::array<Part, 256> parts_;
  std::size_t size_ = 0;
};

}  // namespace cogwheel::text
