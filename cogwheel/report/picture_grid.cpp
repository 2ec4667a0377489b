#include "cogwheel/report/picture_grid.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "cogwheel/core/base64.h"
#include "cogwheel/data/image_files.h"
#include "cogwheel/report/html.h"

namespace cogwheel {

std::string base64_png(const Image& image) {
  const std::string png = encode_png(image);
  return base64(std::span(reinterpret_cast<const std::uint8_t*>(png.data()), png.size()));
}

std::string pictures_html(const PictureGrid& grid) {
  std::string html = "<div class=\"pictures\" style=\"--columns:" + std::to_string(grid.columns) + "\">";
  for (const CaptionedPicture& picture : grid.pictures) {
    const std::string text = escape_html(picture.text);
    html += "<figure><img src=\"data:image/png;base64," + base64_png(picture.image) + "\" alt=\"" + text +
            "\" width=\"" + std::to_string(picture.image.width) + "\" height=\"" +
            std::to_string(picture.image.height) + "\">";
    if (!text.empty()) html += "<figcaption>" + text + "</figcaption>";
    html += "</figure>";
  }
  return html + "</div>";
}

Image tiled(const std::vector<Image>& pictures, int columns, int gap) {
  if (pictures.empty()) return {};
  const std::int64_t count = std::ssize(pictures), across = std::min<std::int64_t>(columns, count);
  const std::int64_t down = (count + across - 1) / across;
  const std::int64_t height = pictures.front().height, width = pictures.front().width;
  Image whole{.height = down * (height + gap) - gap, .width = across * (width + gap) - gap, .pixels = {}};
  whole.pixels.assign(static_cast<std::size_t>(3 * whole.height * whole.width), 255);
  for (std::int64_t place = 0; place < count; ++place) {
    const auto& pixels = pictures[static_cast<std::size_t>(place)].pixels;
    const std::int64_t top = place / across * (height + gap), left = place % across * (width + gap);
    for (std::int64_t row = 0; row < height; ++row)
      std::copy_n(pixels.begin() + 3 * row * width, 3 * width,
                  whole.pixels.begin() + 3 * ((top + row) * whole.width + left));
  }
  return whole;
}

}  // namespace cogwheel
