// report.html: one file that opens offline, made from a comparison and what was looked at in its models.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/evaluate/comparison.h"
#include "cogwheel/train/inspection.h"

namespace cogwheel {

// Inspections of unequal passages than the first one's are left out. Without curves or maps their sections are too.
std::string report_page(const Comparison& comparison, const std::vector<Inspection>& inspections);

// Of the Chart.js that is compiled in.
std::string chart_js_version();

}  // namespace cogwheel
