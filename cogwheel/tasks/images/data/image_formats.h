// The two formats behind image_files.h, each in a file of its own.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/tasks/images/data/image_files.h"

namespace cogwheel::tasks::images {

// Throws Error where a picture of this size is refused.
void expect_image_size(const ImageSize& size, const std::string& what);

Image decode_png(std::string_view bytes, const std::string& what);
ImageSize png_size(std::string_view bytes, const std::string& what);

Image decode_jpeg(std::string_view bytes, const std::string& what);
ImageSize jpeg_size(std::string_view bytes, const std::string& what);

}  // namespace cogwheel::tasks::images
