// Images as sequences of square patches, and back.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {

// images [B, C, H, W], H and W multiples of `patch` → [B, H/patch · W/patch, C · patch²], row by row; a patch lists its
// channels one after the other, each row by row, so that a product with a matrix is the convolution of Dosovitskiy et
// al., "An Image is Worth 16x16 Words" (2021), equation 1. Throws Error for other sizes.
at::Tensor patches_of(const at::Tensor& images, std::int64_t patch);

// patches [B, height/patch · width/patch, patch² · C], in which a patch lists its pixels row by row, each with its
// channels → images [B, C, height, width]. Bao et al., "All are Worth Words" (2023), as its code has it.
at::Tensor image_of_pixels(const at::Tensor& patches, std::int64_t patch, std::int64_t height, std::int64_t width);

}  // namespace cogwheel::nn
