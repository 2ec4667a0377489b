#include "cogwheel/nn/patches.h"

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::nn {

at::Tensor patches_of(const at::Tensor& images, std::int64_t patch) {
  if (images.dim() != 4 || images.size(2) % patch != 0 || images.size(3) % patch != 0)
    throw Error(expected_got("images", "[batch, channels, height, width] in multiples of " + std::to_string(patch),
                             shape_text(images.sizes())));
  return images.unflatten(2, {images.size(2) / patch, patch})
      .unflatten(4, {images.size(3) / patch, patch})  // [B, C, rows, patch, columns, patch]
      .permute({0, 2, 4, 1, 3, 5})
      .flatten(3)
      .flatten(1, 2);
}

at::Tensor image_of_pixels(const at::Tensor& patches, std::int64_t patch, std::int64_t height, std::int64_t width) {
  const std::int64_t rows = height / patch, columns = width / patch, pixels = patch * patch;
  if (patches.dim() != 3 || rows * patch != height || columns * patch != width || patches.size(1) != rows * columns ||
      patches.size(2) % pixels != 0)
    throw Error(
        expected_got("patches of an image",
                     "[batch, " + std::to_string(rows * columns) + ", channels · " + std::to_string(pixels) + "]",
                     shape_text(patches.sizes())));
  return patches.unflatten(2, {patch, patch, patches.size(2) / pixels})
      .unflatten(1, {rows, columns})  // [B, rows, columns, patch, patch, C]
      .permute({0, 5, 1, 3, 2, 4})
      .flatten(4)
      .flatten(2, 3);
}

}  // namespace cogwheel::nn
