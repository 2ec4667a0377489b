// Reads runs from their folders and asks them the question of a study.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/research/inspect/study_page.h"

namespace cogwheel::inspect {

struct RunToStudy {
  std::filesystem::path path;  // of its folder, or a checkpoint in it
  std::string name;
  std::string kind = {};  // as in StudiedRun
};

// What the study finds in them; who asks, and when, is left to the caller. `text`: what models read where the study
// reads a text; none: its own. Throws UsageError for a run that is there twice or cannot be asked, Error for a
// checkpoint that changes while it is read.
FinishedStudy study_of_runs(const StudyEntry& entry, const LabParameters& parameters,
                            const std::vector<RunToStudy>& runs, const std::optional<std::string>& text);

// Writes its files into a folder of their own, whose files of an earlier study are removed.
void write_study(const FinishedStudy& study, const std::filesystem::path& folder);

}  // namespace cogwheel::inspect
