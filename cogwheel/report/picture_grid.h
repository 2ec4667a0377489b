// Pictures side by side, each with a few words: HTML without script, the pictures as PNG within it.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/train/shown_figure.h"

namespace cogwheel {

std::string pictures_html(const PictureGrid& grid);

// A picture as PNG in base64.
std::string base64_png(const Image& image);

// The pictures in rows of `columns`, each `gap` white pixels apart, as one picture. They are of one size.
Image tiled(const std::vector<Image>& pictures, int columns, int gap = 2);

}  // namespace cogwheel
