// The numerics card of a mechanism: its range of weights and the accuracy of their computation, as measured.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"

namespace cogwheel::authoring {

struct NumericsCard {
  std::string mechanism;
  std::vector<std::pair<std::string, std::string>> facts;  // what was measured and the finding, in order of display
  std::vector<std::string> problems;  // each in one line: a wrong derivative, a value that is not finite, …
};

// Of a row map, with the kernels that pairwise_kernel chooses; learnable scalars are at their defaults, or at a layer's
// initial values. Inputs are drawn from fixed seeds and errors rounded to one digit: where COGWHEEL_ISA is `portable`,
// the card is the same on every machine. Takes about half a second. Throws UsageError for a mechanism that is not a row
// map.
NumericsCard numerics_card(const Mechanism& mechanism);

// A few lines for a screen.
std::string to_text(const NumericsCard& card);

}  // namespace cogwheel::authoring
