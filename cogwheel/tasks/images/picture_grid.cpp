#include "cogwheel/tasks/images/picture_grid.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "cogwheel/core/encoding/base64.h"
#include "cogwheel/core/error.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/tasks/images/data/image_files.h"

namespace cogwheel::tasks::images {

static constexpr const char* pictures_kind = "pictures";

std::string base64_png(const Image& image) {
  const std::string png = encode_png(image);
  return base64(std::span(reinterpret_cast<const std::uint8_t*>(png.data()), png.size()));
}

std::string pictures_html(const PictureGrid& grid) {
  std::string html = "<div class=\"pictures\" style=\"--columns:" + std::to_string(grid.columns) + "\">";
  for (const CaptionedPicture& picture : grid.pictures) {
    const std::string text = pages::escape_html(picture.text);
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

pages::Figure drawn_figure(const PictureGrid& grid, const std::string& title) {
  return {.title = title, .html = pictures_html(grid), .caption = grid.caption};
}

nlohmann::ordered_json figure_json(const PictureGrid& grid) {
  auto pictures = nlohmann::ordered_json::array();
  for (const CaptionedPicture& each : grid.pictures)
    pictures.push_back({{"png", base64_png(each.image)}, {"text", each.text}});
  return {
      {"kind", pictures_kind}, {"columns", grid.columns}, {"pictures", std::move(pictures)}, {"caption", grid.caption}};
}

runs::FigureKind pictures_figure() {
  return {pictures_kind, [](const nlohmann::ordered_json& json, const std::string& title, std::string_view what) {
            PictureGrid grid{.pictures = {}, .columns = json.at("columns"), .caption = json.at("caption")};
            constexpr int most_columns = 64;
            if (grid.columns < 1 || grid.columns > most_columns)
              throw Error(expected_got(what, "1 to " + std::to_string(most_columns) + " columns",
                                       std::to_string(grid.columns)));
            for (const auto& each : json.at("pictures")) {
              const auto png = from_base64(each.at("png").get<std::string>());
              if (!png) throw Error(expected_got(what, "a picture in base64", "other characters"));
              const std::string_view bytes(reinterpret_cast<const char*>(png->data()), png->size());
              grid.pictures.push_back({decode_image(bytes, std::string(what)), each.at("text")});
            }
            return runs::ShownFigure(title, std::move(grid));
          }};
}

}  // namespace cogwheel::tasks::images
