// A study as files: a page, JSON, and a CSV of each table.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/research/inspect/study.h"

namespace cogwheel::inspect {

struct FinishedStudy {
  const StudyEntry* study = nullptr;
  LabParameters parameters;
  std::vector<std::string> runs = {};         // names
  std::vector<std::string> mechanisms = {};   // of each
  std::vector<std::string> checkpoints = {};  // SHA-256 of each
  StudyResult result = {};
  std::string command = {}, created = {}, version = {}, cpu = {};
  double seconds = 0;
};

std::string study_page(const FinishedStudy& study);
std::string study_json(const FinishedStudy& study);
std::string study_csv(const pages::TextTable& table);

// The marker of a folder that holds one, and the files in it besides the tables.
inline constexpr std::string_view study_kind = "study";
inline constexpr const char *study_page_file = "report.html", *study_json_file = "results.json";
// The files of the study that a folder holds, with its tables; those alone where it holds none.
std::vector<std::string> files_of_study(const std::filesystem::path& folder);

}  // namespace cogwheel::inspect
