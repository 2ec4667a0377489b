// Pictures side by side, each with a few words: HTML without script, the pictures as PNG within it.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/core/exhibits.h"
#include "cogwheel/data/image.h"

namespace cogwheel {

struct CaptionedPicture {
  Image image;
  std::string text = {};  // also what stands in for the picture
};

struct PictureGrid {
  std::string title;
  std::vector<CaptionedPicture> pictures;
  int columns = 8;
  std::string caption = {};
};

Figure picture_grid_figure(const PictureGrid& grid);

// The pictures in rows of `columns`, each `gap` white pixels apart, as one picture. They are of one size.
Image tiled(const std::vector<Image>& pictures, int columns, int gap = 2);

}  // namespace cogwheel
