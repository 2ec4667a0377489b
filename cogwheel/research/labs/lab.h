// An argument of the lecture (docs/references.md) as an experiment: what it asks, what it assumes, what it lets one
// expect beside what was found here, and what shows them. A lab is a function of its parameters, the seed among them;
// pages and files are made elsewhere (research/reproduce/reproduction.h).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/core/lab_parameters.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/pages/matrix_map.h"

namespace cogwheel::labs {

// What is expected, who expects it, and the number found.
struct Finding {
  enum class Relation {
    near,     // within `tolerance` of what is expected; how near is always our choice
    at_most,  // what is expected is a bound
    above,    // larger than this
    shown,    // nothing is expected of these parameters
  };
  enum class Whose {
    printed,    // the lecture has the number
    follows,    // from a formula of the lecture, or from what it cites
    direction,  // the lecture says which of two is larger, and not by how much
    ours,       // a threshold of our own, where the lecture has words alone, or a formula that it does not have
    nobody,     // of what is shown
  };

  std::string what;
  Whose whose = Whose::nobody;
  Relation relation = Relation::near;
  double expected = 0, tolerance = 0;
  double ours = 0;
  std::string remark = {};  // why the two differ, or what to mind

  // "near", …, as files have it; and back, of another name `shown`.
  static std::string relation_name(Relation relation);
  static Relation find_relation(std::string_view name);

  // Absent where there is nothing to agree with. A number that is not finite agrees with none.
  std::optional<bool> agrees() const;
  std::string expected_text() const;  // "0.138 ± 0.01", "at most 0.05", "above 0"; "–" of what is shown
  std::string whose_text() const;     // "the lecture's number", …; "–" of nobody
  std::string ours_text() const;
};

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

}  // namespace cogwheel::labs
