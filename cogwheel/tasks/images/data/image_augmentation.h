// Changes of a training image that leave its class as it is, drawn anew each time that it is met.
#pragma once
#include <cstdint>
#include <span>

namespace cogwheel::tasks::images {

enum class EraseFill { zero, noise };  // black; each byte drawn

// In this order: crop, flip, erase.
struct ImageAugmentation {
  // Framed in this many black pixels and cut back to its size at a drawn place: moved by up to this many. At most the
  // smaller side.
  std::int64_t crop_padding = 0;
  bool flip = false;  // left and right change places in half of the images
  // Random erasing (Zhong et al., Random Erasing Data Augmentation (2020), algorithm 1): with this probability, a
  // rectangle is filled whose area is a share of the image's between the two bounds, and whose height over width lies
  // between erase_aspect and its inverse.
  double erase = 0;
  double erase_min_area = 0.02, erase_max_area = 0.4, erase_aspect = 0.3;
  EraseFill erase_fill = EraseFill::noise;

  bool any() const { return crop_padding > 0 || flip || erase > 0; }
};

// Throws UsageError for a number out of its range.
void expect_valid(const ImageAugmentation& augmentation, std::int64_t height, std::int64_t width);

// Changes pixels [channels, height, width] as (seed, place) decides. Whether it is flipped, and by how much it moves,
// does not depend on what else is asked for.
void augment_image(std::span<std::uint8_t> pixels, std::int64_t height, std::int64_t width,
                   const ImageAugmentation& augmentation, std::uint64_t seed, std::uint64_t place);

}  // namespace cogwheel::tasks::images
