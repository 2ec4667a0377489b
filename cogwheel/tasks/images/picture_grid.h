// Pictures side by side, each with a few words: HTML without script, the pictures as PNG within it.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/tasks/images/data/image.h"

namespace cogwheel::tasks::images {

struct CaptionedPicture {
  Image image;
  std::string text = {};  // also what stands in for the picture
};

// Pictures side by side.
struct PictureGrid {
  std::vector<CaptionedPicture> pictures;
  int columns = 8;
  std::string caption = {};
};

std::string pictures_html(const PictureGrid& grid);

// A picture as PNG in base64.
std::string base64_png(const Image& image);

// The pictures in rows of `columns`, each `gap` white pixels apart, as one picture. They are of one size.
Image tiled(const std::vector<Image>& pictures, int columns, int gap = 2);

pages::Figure drawn_figure(const PictureGrid& grid, const std::string& title);
nlohmann::ordered_json figure_json(const PictureGrid& grid);

}  // namespace cogwheel::tasks::images
