// A matrix of numbers from 0 on as a picture, SVG without script: the larger a number the darker its cell, by its
// logarithm, and cells of exactly 0 empty.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/pages/exhibits.h"

namespace cogwheel::pages {

struct MatrixMap {
  std::string title;
  std::string row_title, column_title;
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows, columns]
  double decades = 6;          // a cell that many powers of ten below the largest is the palest
  std::string caption = {};
};

// Throws std::logic_error where there are not rows · columns values.
Figure matrix_map_figure(const MatrixMap& map);

}  // namespace cogwheel::pages
