// The studies that an experiment asks of its trained rows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/research/inspect/study_of_runs.h"
#include "cogwheel/research/inspect/study_page.h"
#include "cogwheel/research/reproduce/study_store.h"
#include "cogwheel/research/reproduce/trained_experiment.h"

namespace cogwheel::reproduce {

struct StudyOfRows {
  struct Run {
    std::string row;
    std::int64_t seed = 0;
  };
  std::vector<Run> runs = {};  // those that finished, in the order of the study's
  inspect::FinishedStudy study;
  std::string problem = {};  // why there is no result
  double seconds = 0;
};

// Of the folder of a reproduction: a folder for each study.
inline constexpr const char* studies_folder = "studies";

// The folder of a run; none where it cannot be studied.
using PathOfRun = std::function<std::optional<std::filesystem::path>(const std::string& row, std::int64_t seed)>;

// The runs of the rows that a study asks for, by row and seed.
std::vector<inspect::RunToStudy> runs_to_study(const RequestedStudy& asked, const compare::Comparison& comparison,
                                               const PathOfRun& path);

// Makes them one after the other, or takes them from the store, and writes their pages. One that cannot be made does
// not end the others: its problem is told to `line` and kept.
std::vector<StudyOfRows> make_studies(const TrainedExperiment& experiment, const compare::Comparison& comparison,
                                      const std::filesystem::path& comparison_path, const std::filesystem::path& folder,
                                      const StudyStore& store, const std::function<void(const std::string&)>& line);

}  // namespace cogwheel::reproduce
