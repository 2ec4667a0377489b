// The table of a comparison for spreadsheets and papers.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

// What the table shows of a mechanism besides its summary, over the finished runs.
struct RunMeans {
  double tokens_per_second = 0;
  double tokens = 0;
  std::optional<std::int64_t> peak_memory_bytes;  // the largest
};
RunMeans run_means(const Comparison& comparison, std::string_view mechanism);

// A cell as RFC 4180 has it: quoted where necessary, with quotes doubled.
std::string csv_cell(const std::string& text);

// One line per mechanism; cells of unknown values are empty.
std::string results_to_csv(const Comparison& comparison);

// A booktabs table.
std::string results_to_latex(const Comparison& comparison);

}  // namespace cogwheel::compare
