// An argument of one of the sources (docs/references.md) as an experiment: what it asks, what it assumes, what the
// source lets one expect beside what was found here, and what shows them. A lab is a function of its parameters, the
// seed among them; pages and files are made elsewhere (research/reproduce/reproduction.h).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/lab_parameters.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/pages/matrix_map.h"
#include "cogwheel/research/labs/finding.h"

namespace cogwheel::labs {

struct LabResult {
  std::string answer;  // in a sentence or two, beside the question
  std::vector<Finding> findings;
  std::vector<pages::LineChart> charts = {};
  std::vector<pages::MatrixMap> maps = {};
  std::vector<pages::Figure> figures = {};
  std::vector<pages::TextTable> tables = {};
  std::vector<std::pair<std::string, std::string>> assumptions = {};  // a few words, and what they mean
  // What is measured on this machine and differs from run to run: everything else is the same, bit for bit.
  bool timed = false;
};

// Where a lab runs.
struct LabHost {
  // Runs parts side by side. A result does not depend on how many workers it has.
  const Executor& executor;
  // Takes a line for who waits, from any thread, one at a time.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// The parameter that the time of a lab grows with in proportion, beside what it takes anyway: of training its steps.
// `cogwheel reproduce --minutes` makes it smaller.
struct LabSize {
  std::string parameter = {};  // a whole number; empty: it takes what it takes
  // What it takes anyway is the same for multiples of this: a run of fewer steps than it is evaluated has fewer
  // evaluations.
  std::int64_t unit = 1;
};

// Of a lab all of whose parameters fit each other.
inline void any_parameters(const LabParameters&) {}

struct LabEntry {
  std::string name;      // as labs.def has it, with - for _
  std::string title;     // of the page
  std::string question;  // what the source claims, as a question
  LabParameters parameters;
  LabResult (*run)(const LabParameters& parameters, const LabHost& host);
  // Throws UsageError for parameters that do not fit each other, before anything is written.
  void (*check)(const LabParameters& parameters) = any_parameters;
  LabSize size = {};
};

}  // namespace cogwheel::labs
