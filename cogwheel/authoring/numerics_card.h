// The numerics card of a mechanism: what its weights are and how well they are computed, measured and not claimed.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/mechanisms/catalogue.h"

namespace cogwheel {

struct NumericsCard {
  std::string mechanism;
  std::vector<std::pair<std::string, std::string>> facts;  // what, and what was found, in the order of the page
  std::vector<std::string> problems;  // each in one line: a wrong derivative, what is no finite number, …
};

// Of a row map, with the kernels that pairwise_kernel chooses; learnable scalars are at their defaults, or where a
// layer starts them. Inputs are drawn from fixed seeds and numbers rounded to one digit: where COGWHEEL_ISA is
// `portable`, the same on every machine. Takes about half a second. Throws UsageError for a mechanism that is no row
// map.
NumericsCard numerics_card(const Mechanism& mechanism);

// A few lines for a screen.
std::string to_text(const NumericsCard& card);

}  // namespace cogwheel
