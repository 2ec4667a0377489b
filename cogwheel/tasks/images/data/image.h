// A picture as bytes.
#pragma once
#include <cstdint>
#include <vector>

namespace cogwheel::tasks::images {

struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3]: rows from the top; red, green, blue

  bool operator==(const Image&) const = default;
};

struct ImageSize {
  std::int64_t height = 0, width = 0;

  bool operator==(const ImageSize&) const = default;
};

}  // namespace cogwheel::tasks::images
