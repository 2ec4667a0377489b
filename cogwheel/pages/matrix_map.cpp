#include "cogwheel/pages/matrix_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::pages {

Figure matrix_map_figure(const MatrixMap& map) {
  if (std::ssize(map.values) != map.rows * map.columns)
    throw std::logic_error(expected_got("map: " + map.title, std::to_string(map.rows * map.columns) + " values",
                                        std::to_string(map.values.size())));
  double largest = 0;
  for (const double value : map.values)
    if (std::isfinite(value)) largest = std::max(largest, value);
  std::string cells;
  for (std::int64_t row = 0; row < map.rows; ++row)
    for (std::int64_t column = 0; column < map.columns; ++column) {
      const double value = map.values[static_cast<std::size_t>(row * map.columns + column)];
      if (!(value > 0) || !std::isfinite(value)) continue;
      constexpr double palest = 0.06;  // still seen on either paper
      const double shade = std::clamp(1 + std::log10(value / largest) / map.decades, 0., 1.);
      cells += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" fill-opacity=\"{:.3f}\"/>", column, row,
                           palest + (1 - palest) * shade);
    }
  return {.title = map.title,
          .html = fmt::format("<div class=\"matrix-map\"><svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" "
                              "shape-rendering=\"crispEdges\">{}</svg><p><span>{} →</span><span>{} ↓</span></p></div>",
                              escape_html(fmt::format("{}: {} by {}", map.title, map.row_title, map.column_title)),
                              map.columns, map.rows, cells, escape_html(map.column_title), escape_html(map.row_title)),
          .caption = map.caption};
}

}  // namespace cogwheel::pages
