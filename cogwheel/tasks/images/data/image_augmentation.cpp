#include "cogwheel/tasks/images/data/image_augmentation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/core/range.h"

namespace cogwheel::tasks::images {
namespace {

// One channel of an image.
struct ImagePlane {
  std::uint8_t* pixels;
  std::int64_t height, width;

  std::uint8_t* row(std::int64_t y) const { return pixels + y * width; }
};

// What is at (y, x) comes from (y + down, x + right).
void move_plane(const ImagePlane& plane, std::int64_t down, std::int64_t right) {
  const std::vector<std::uint8_t> old(plane.pixels, plane.pixels + plane.height * plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y)
    for (std::int64_t x = 0; x < plane.width; ++x) {
      const std::int64_t from_y = y + down, from_x = x + right;
      const bool inside = from_y >= 0 && from_y < plane.height && from_x >= 0 && from_x < plane.width;
      plane.row(y)[x] = inside ? old[static_cast<std::size_t>(from_y * plane.width + from_x)] : std::uint8_t{0};
    }
}

struct Rectangle {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// Algorithm 1 of Zhong et al.: drawn again until it fits, which fails 100 times in a row less than once in 10¹³.
Rectangle drawn_rectangle(std::int64_t height, std::int64_t width, const ImageAugmentation& how, NumberedDraws& draws) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const double area = draws.between(how.erase_min_area, how.erase_max_area) * static_cast<double>(height) *
                        static_cast<double>(width);
    const double aspect = draws.between(how.erase_aspect, 1 / how.erase_aspect);
    const auto tall = static_cast<std::int64_t>(std::sqrt(area * aspect) + 0.5);
    const auto wide = static_cast<std::int64_t>(std::sqrt(area / aspect) + 0.5);
    const auto top = static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(height)));
    const auto left = static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(width)));
    if (top + tall <= height && left + wide <= width) return {top, left, tall, wide};
  }
  return {};
}

}  // namespace

void expect_valid(const ImageAugmentation& how, std::int64_t height, std::int64_t width) {
  expect_within("crop padding", how.crop_padding, Range<std::int64_t>{0, std::min(height, width)});
  expect_within("erasing probability", how.erase, Range<double>{0, 1});
  expect_within("largest erased area", how.erase_max_area, Range<double>{.min = 0, .max = 1, .min_excluded = true});
  expect_within("smallest erased area", how.erase_min_area,
                Range<double>{.min = 0, .max = how.erase_max_area, .min_excluded = true});
  expect_within("erased aspect", how.erase_aspect, Range<double>{0.01, 1});
}

void augment_image(std::span<std::uint8_t> pixels, std::int64_t height, std::int64_t width,
                   const ImageAugmentation& how, std::uint64_t seed, std::uint64_t place) {
  NumberedDraws draws(seed, stream_named("augm"), place);
  const bool flip = draws.with_probability(0.5) && how.flip;
  const auto shift = [&] {
    return static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(2 * how.crop_padding + 1))) -
           how.crop_padding;
  };
  const std::int64_t down = shift(), right = shift();
  Rectangle erased;
  if (draws.with_probability(how.erase)) erased = drawn_rectangle(height, width, how, draws);

  for (std::size_t begin = 0; begin < pixels.size(); begin += static_cast<std::size_t>(height * width)) {
    const ImagePlane plane{pixels.data() + begin, height, width};
    if (down != 0 || right != 0) move_plane(plane, down, right);
    for (std::int64_t y = 0; y < height && flip; ++y) std::reverse(plane.row(y), plane.row(y) + width);
    for (std::int64_t y = erased.top; y < erased.top + erased.height; ++y)
      for (std::int64_t x = erased.left; x < erased.left + erased.width; ++x)
        plane.row(y)[x] =
            how.erase_fill == EraseFill::zero ? std::uint8_t{0} : static_cast<std::uint8_t>(draws.below(256));
  }
}

}  // namespace cogwheel::tasks::images
