// The list of all labs.
#pragma once
#include <span>
#include <string_view>

#include "cogwheel/research/labs/lab.h"

namespace cogwheel::labs {

// In the order of labs.def.
std::span<const LabEntry> labs();

// Throws UsageError, which begins with `what`, with the nearest names.
const LabEntry& find_lab(std::string_view name, std::string_view what);

}  // namespace cogwheel::labs
