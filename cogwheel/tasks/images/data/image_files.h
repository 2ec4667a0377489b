// Pictures in files: PNG (by libpng) and JPEG (by libjpeg-turbo), recognised by their first bytes.
//
// Every kind of PNG becomes 8-bit RGB: grey and palettes are expanded, 16 bits are rounded to 8, what is transparent
// lies on white. Gamma, colour profiles and Exif, orientation included, are ignored. A JPEG is grey or YCbCr or RGB.
// All throw Error with `what` for
//   - another format, or a JPEG of CMYK or YCCK, by its name;
//   - more than `max_image_pixels` or a side beyond `max_image_side`, which the header tells before memory is taken;
//   - a file of more than `max_image_bytes`; a JPEG of more than 100 scans;
//   - a file that is truncated or damaged, a wrong checksum of any part of a PNG included.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "cogwheel/tasks/images/data/image.h"

namespace cogwheel::tasks::images {

inline constexpr std::int64_t max_image_pixels = 64'000'000, max_image_side = 65'500;
// Of a file: twice what 64 megapixels of 16 bits and transparency take without compression.
inline constexpr std::int64_t max_image_bytes = std::int64_t{1} << 30;

Image decode_image(std::string_view bytes, const std::string& what);
Image read_image(const std::filesystem::path& path);

// Of the header alone, and whether decode_image reads such pictures; what follows it may still be damaged.
ImageSize image_size(std::string_view bytes, const std::string& what);
// The same; reads only the start of a file, unless a long profile or preview precedes the header.
ImageSize read_image_size(const std::filesystem::path& path);

// As an 8-bit RGB PNG: the same bytes for the same picture, with one version of libpng and zlib. Throws Error for a
// picture without pixels or with another number of them than its size says.
std::string encode_png(const Image& image);

}  // namespace cogwheel::tasks::images
