#include "cogwheel/tasks/images/data/image_resize.h"

#include <algorithm>

namespace cogwheel::tasks::images {
namespace {

// Calls take(from, to, share) for the pixels `from` of a side of `old_size` that a pixel `to` of one of `size` covers.
// Lengths count in units of which a pixel of the old side has `size` and one of the new has `old_size`.
template <class Take>
void for_each_covered(std::int64_t old_size, std::int64_t size, std::int64_t to, const Take& take) {
  const std::int64_t begin = to * old_size, end = begin + old_size;
  for (std::int64_t from = begin / size; from * size < end; ++from)
    take(from, static_cast<std::uint64_t>(std::min(end, (from + 1) * size) - std::max(begin, from * size)));
}

}  // namespace

Image centre_square(const Image& image, std::int64_t size) {
  const std::int64_t side = std::min(image.height, image.width);
  const std::int64_t top = (image.height - side) / 2, left = (image.width - side) / 2;
  Image result{size, size, {}};
  result.pixels.reserve(static_cast<std::size_t>(size * size * 3));
  // Of a row: first each column of the old square down, then across. 255 · 65,500² fits in 64 bits by far.
  std::vector<std::uint64_t> down(static_cast<std::size_t>(side * 3));
  const auto total = static_cast<std::uint64_t>(side) * static_cast<std::uint64_t>(side);
  for (std::int64_t y = 0; y < size; ++y) {
    std::fill(down.begin(), down.end(), 0);
    for_each_covered(side, size, y, [&](std::int64_t from, std::uint64_t share) {
      const std::uint8_t* const row = image.pixels.data() + ((top + from) * image.width + left) * 3;
      for (std::size_t each = 0; each < down.size(); ++each) down[each] += share * row[each];
    });
    for (std::int64_t x = 0; x < size; ++x)
      for (std::int64_t channel = 0; channel < 3; ++channel) {
        std::uint64_t sum = 0;
        for_each_covered(side, size, x, [&](std::int64_t from, std::uint64_t share) {
          sum += share * down[static_cast<std::size_t>(from * 3 + channel)];
        });
        result.pixels.push_back(static_cast<std::uint8_t>((2 * sum + total) / (2 * total)));
      }
  }
  return result;
}

}  // namespace cogwheel::tasks::images
