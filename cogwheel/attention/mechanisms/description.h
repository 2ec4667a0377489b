// A mechanism's description in the catalogue: `cogwheel list`, `cogwheel.mechanisms()` and the documentation show it.
#pragma once
#include <string_view>

namespace cogwheel {

struct Description {
  std::string_view name;        // as users type it
  std::string_view title;       // as a heading or a table shows it
  std::string_view family;      // pairwise, matrix, recurrent or alignment
  std::string_view level;       // operator: takes queries, keys and values; dense: so too, but without a fused
                                // kernel; layer: also makes these itself
  std::string_view parameters;  // names of its own arguments, separated by commas
  std::string_view formula;     // of the weights, in one line
  std::string_view range;       // of one weight, and of a row's sum
  std::string_view citation;
  std::string_view score = "dot";  // dot: scale · q·k; cosine: q·k / (|q||k|), without a scale
};

}  // namespace cogwheel
