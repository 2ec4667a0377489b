// A comparison as the output of a notebook.
#pragma once
#include <string_view>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/pages/notebook_output.h"

namespace cogwheel::compare {

// The verdict, the table and the curves of the report, without script. `report` is where that is; empty: nowhere.
pages::NotebookOutput shown_comparison(const Comparison& comparison, std::string_view report);

}  // namespace cogwheel::compare
