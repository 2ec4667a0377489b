// An experiment whose variants are trained and compared: experiments/<source>/<name>.toml with [variants].
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/statistics/claim_statistics.h"
#include "cogwheel/research/inspect/study.h"

namespace cogwheel::reproduce {

using compare::ClaimResult;
using compare::TestedClaim;
using compare::Verdict;

// Which value of a row, of each seed.
struct NumberOfRow {
  // A measure of the task, or "train_loss"; empty: the one that decides. Of a study its number, "heads.kurtosis".
  std::string measure = {};
  // Of a measure: after which share of the steps. It is that of the curve, between two of whose points it is
  // interpolated; at the end (1) that of the finished model.
  double at = 1;
  // After "@" in a file: of which difficulty of the task, or at what the number of a study is taken.
  std::optional<double> place = {};

  bool of_study() const { return measure.find('.') != std::string::npos; }
};

// What trained rows are asked beside their measures: a study of research/inspect.
struct RequestedStudy {
  const inspect::StudyEntry* entry = nullptr;
  LabParameters parameters;
  std::vector<std::string> rows = {};  // empty: all
};

// A table as the source prints it.
struct SourceTable {
  struct Row {
    std::string name;     // as printed
    std::string variant;  // that trains it here; empty: none
    std::vector<std::optional<double>> values = {};
  };
  std::string caption;
  std::vector<std::string> columns;
  std::vector<NumberOfRow> numbers = {};  // of each column, ours
  std::vector<Row> rows = {};
  int digits = 2;
};

struct Source {
  std::string document = {};            // "S1", as docs/references.md has it
  std::string place = {};               // "Table 4"
  std::vector<std::string> items = {};  // what it answers, "S1-45"
  std::string cost = {};                // what the source spent; or empty
  std::vector<SourceTable> tables = {};
};

// A claim about a row, or about a row less another of the same seed.
struct Claim {
  std::string id, says;
  std::string row, against;  // `against`: empty for the row's own value
  NumberOfRow number;
  NumberOfRow later = {};  // of a crossing, its second place
  TestedClaim::Relation relation = TestedClaim::Relation::below;
  double bound = 0;
  bool rises = true;
  bool ours = false;                   // what we expect, and the source does not say
  bool primary = false;                // decided; others are shown
  bool every = false;                  // of each run, as a rank is, and not of a mean: nothing is tested
  std::optional<double> printed = {};  // the same number of the source
};

// What is trained, at one size.
struct Scale {
  std::int64_t seeds = 3;
  std::int64_t steps = 0;
  double learning_rate = 0;               // 0: the preset's
  double minutes = 0;                     // that it takes on two cores at most; 0: more than anybody waits for
  std::vector<std::string> set = {};      // keys of all models, and parameters of studies: "pictures.samples=300"
  std::vector<std::int64_t> widths = {};  // in the place of the comparison's, whose rows its claims are about
  std::int64_t bytes = 0;                 // of the text; 0: as many as `cogwheel compare` takes
  std::int64_t vocabulary = 0;            // by which its size is told where the data are not there; 0: not known
  std::string note = {};
};

struct TrainedExperiment {
  std::string name, title, question;
  Source source = {};
  // As options of `cogwheel compare` of the same name.
  struct Comparison {
    std::string task = {}, preset = {}, form = {}, position = {}, match = {}, tokenizer = {}, baseline = {};
    std::int64_t tune = 0;
    std::vector<std::string> set = {};
    std::vector<std::int64_t> widths = {};  // then rows are named "NAME at WIDTH"
  };
  Comparison comparison = {};
  std::vector<compare::Variant> variants = {};
  std::vector<RequestedStudy> studies = {};
  std::vector<Claim> claims = {};
  std::vector<std::string> traps = {};
  Scale desk = {};
  std::optional<Scale> paper = {};

  // Whether it is of another scale than "desk" too; of a name that is none, it has it, and `scale` throws.
  bool has_scale(std::string_view scale_name) const { return scale_name != "paper" || paper; }
  const Scale& scale(std::string_view scale_name) const;  // Throws UsageError
};

// Whether an assignment is of a parameter of one of its studies: "pictures.samples=300".
bool sets_study(const TrainedExperiment& experiment, std::string_view assignment);
// Those of `assignments` that are. Throws UsageError that begins with `what` for a parameter that the study has not, or
// its value.
void set_studies(TrainedExperiment& experiment, const std::vector<std::string>& assignments, const std::string& what);

// Whether a text is that of such an experiment, and not of one that names a lab.
bool has_variants(std::string_view toml, const std::string& what);

// Throws UsageError that begins with `what` for a key that is none, a claim about a row that is not trained, claims of
// one id, a table whose rows have other columns.
TrainedExperiment parse_trained_experiment(std::string_view toml, const std::string& name, const std::string& what);

}  // namespace cogwheel::reproduce
