// The parts of the page that are plain HTML. Every text from data is escaped here.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

// The colour of a mechanism as a custom property: ink for the baseline, one of seven hues for the others.
std::string series_property(const Comparison& comparison, std::string_view mechanism);

// "Three attention mechanisms under one budget".
std::string title_of(const Comparison& comparison);
// The verdict, names in the colours of their mechanisms.
std::string verdict_html(const Comparison& comparison);

std::string facts_html(const Comparison& comparison);
std::string versions_html(const Comparison& comparison);
std::string table_html(const Comparison& comparison);
// The difference of a row in words: "Clearly lower", "the baseline".
std::string reading_words(const Comparison& comparison, const SummaryRow& row);
// How losses fall with size, and which rates are best at each width; empty without widths.
std::string widths_html(const Comparison& comparison);
std::string notes_html(const Comparison& comparison);
std::string tuning_html(const Comparison& comparison);  // empty if no rates were searched
std::string limits_html(const Comparison& comparison);  // only those that apply to this run

}  // namespace cogwheel::compare
