// The conclusion of a comparison, in one sentence.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

// A part of the sentence; `mechanism` is set if it is the name of one, so that a page can colour it.
struct VerdictPart {
  std::string text;
  std::string mechanism;
};

// Made from the summary: what is clearly better or worse than the baseline, what cannot be told apart, and which runs
// are missing. It never claims more than the adjusted p-values; with one seed, or differences that are the same in
// every seed, it says that chance cannot be ruled out.
std::vector<VerdictPart> verdict_parts(const Comparison& comparison);
std::string verdict(const Comparison& comparison);

// What happened to the runs that did not finish, one clause each: "cog diverged in seed 2". Empty where all finished.
std::vector<std::vector<VerdictPart>> missing_runs(const Comparison& comparison);

// A mechanism's title inside a sentence: ordinary words in lower case, and in quotation marks where the title itself
// has a comma.
std::string title_in_sentence(const std::string& title);
// "softmax", or, of a comparison at several widths, "softmax of the same width".
std::string baseline_in_sentence(const Comparison& comparison);
// The same of a mechanism of the comparison.
std::string name_in_sentence(const Comparison& comparison, const std::string& mechanism);

}  // namespace cogwheel::compare
