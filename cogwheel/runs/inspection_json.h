// inspection.json of a run: attention maps, sample and tables of its model, at full precision.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/runs/inspection.h"

namespace cogwheel::runs {

std::string inspection_to_json(const Inspection& inspection);
Inspection parse_inspection(std::string_view json, std::string_view what = "inspection.json");

}  // namespace cogwheel::runs
