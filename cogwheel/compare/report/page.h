// report.html: one file that opens offline, made from a comparison and the inspections of its models.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/runs/inspection.h"

namespace cogwheel::compare {

// Inspections of another passage than that of the first one are left out, as are the sections of curves and maps if
// there are none.
std::string report_page(const Comparison& comparison, const std::vector<runs::Inspection>& inspections);

// What size does, for another page: of a comparison at several widths.
pages::DocumentSection widths_section(const Comparison& comparison);

// The version of the embedded Chart.js.
std::string chart_js_version();

}  // namespace cogwheel::compare
