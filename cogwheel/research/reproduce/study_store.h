// Studies of stored runs, found by what they are: the same question to the same models is asked once.
//
// DIR/studies/<hash>/ has the files of the study and shown.json, what the page and the claims of an experiment take
// from it. The hash is of the study, its parameters, the models (by the SHA-256 of their checkpoints, with the rows
// that they are of) and the version of Cogwheel.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/research/inspect/study_of_runs.h"

namespace cogwheel::reproduce {

class StudyStore {
 public:
  // `folder`: of the stored runs. `remake`: every study is made anew.
  StudyStore(std::filesystem::path folder, std::string version, bool remake)
      : folder_(std::move(folder)), version_(std::move(version)), remake_(remake) {}

  // The study of these runs: read where it was made, else by `make`, and kept. Its files are then in `target`, whose
  // files of another study are removed. What a kept study shows in tables and figures of its own is in its files alone.
  inspect::FinishedStudy study(const inspect::StudyEntry& entry, const LabParameters& parameters,
                               const std::vector<inspect::RunToStudy>& runs, const std::filesystem::path& target,
                               const std::function<inspect::FinishedStudy()>& make) const;

  // Whether it is there, and would be taken.
  bool holds(const inspect::StudyEntry& entry, const LabParameters& parameters,
             const std::vector<inspect::RunToStudy>& runs) const;

 private:
  std::filesystem::path place(const inspect::StudyEntry& entry, const LabParameters& parameters,
                              const std::vector<inspect::RunToStudy>& runs) const;

  std::filesystem::path folder_;
  std::string version_;
  bool remake_;
};

}  // namespace cogwheel::reproduce
