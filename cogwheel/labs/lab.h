// An argument of the sources as an experiment: what it asks, what it assumes, the source's numbers beside those found
// here, and what shows them. A lab is a function of its parameters, the seed among them; pages and files are made
// elsewhere (lab_page.h).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/exhibits.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/labs/lab_parameters.h"
#include "cogwheel/report/line_chart.h"
#include "cogwheel/report/matrix_map.h"

namespace cogwheel {

// One number of the source, or one that follows from it, beside the one found.
struct Finding {
  enum class Relation {
    near,     // within `tolerance` of the source's
    at_most,  // the source's is a bound
    above,    // the source says: larger than this
    shown,    // the source has no number for these parameters
  };

  std::string what;
  std::string source;  // the number of the argument, or whose result it is
  Relation relation = Relation::near;
  double expected = 0, tolerance = 0;
  double ours = 0;
  std::string remark = {};  // why the two differ, or what to mind

  // Absent where there is nothing to agree with. A number that is not finite agrees with none.
  std::optional<bool> agrees() const;
  std::string expected_text() const;  // "0.138 ± 0.01", "at most 0.05", "above 0"
  std::string ours_text() const;
};

struct LabResult {
  std::string answer;  // in a sentence or two, beside the question
  std::vector<Finding> findings;
  std::vector<LineChart> charts = {};
  std::vector<MatrixMap> maps = {};
  std::vector<Figure> figures = {};
  std::vector<TextTable> tables = {};
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

struct LabEntry {
  std::string name;      // as labs.def has it, with - for _
  std::string title;     // of the page
  std::string question;  // what the source claims, as a question
  LabParameters parameters;
  LabResult (*run)(const LabParameters& parameters, const LabHost& host);
  // Throws UsageError for parameters that do not fit each other, before anything is written.
  void (*check)(const LabParameters& parameters) = [](const LabParameters&) {};
};

// A number for a reader: whole ones in groups of three digits, others with four digits.
std::string number_for_readers(double value);

}  // namespace cogwheel
