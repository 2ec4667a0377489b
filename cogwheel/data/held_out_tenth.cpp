#include "cogwheel/data/held_out_tenth.h"

#include <algorithm>
#include <numeric>

#include "cogwheel/core/sha256.h"

namespace cogwheel {

std::vector<bool> held_out_tenth(std::span<const std::string> origins) {
  std::vector<std::string> hashes;
  hashes.reserve(origins.size());
  for (const std::string& origin : origins) hashes.push_back(sha256(origin).substr(0, 15));  // fits without allocation
  std::vector<std::size_t> order(origins.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return hashes[a] < hashes[b]; });
  std::vector<bool> held_out(origins.size());
  for (std::size_t begin = 0; begin < order.size() && 10 * begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && hashes[order[end]] == hashes[order[begin]]) ++end;
    if (end == order.size()) break;
    for (; begin < end; ++begin) held_out[order[begin]] = true;
  }
  return held_out;
}

}  // namespace cogwheel
