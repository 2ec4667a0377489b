#include <fmt/format.h>

#include <cmath>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/research/inspect/study.h"

namespace cogwheel::inspect {

#define STUDY(name) StudyEntry name##_study();
#include "cogwheel/research/inspect/studies.def"
#undef STUDY

const std::vector<StudyEntry>& studies() {
  static const std::vector<StudyEntry> all{
#define STUDY(name) name##_study(),
#include "cogwheel/research/inspect/studies.def"
#undef STUDY
  };
  return all;
}

const StudyEntry& find_study(std::string_view name, std::string_view what) {
  std::vector<std::string> names;
  for (const StudyEntry& entry : studies()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw UsageError(expected_got(what, expected_names(name, names), name));
}

std::string mechanism_title(const std::string& mechanism) { return LayerPattern(mechanism, "mechanism").title(); }

std::string study_number(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : ""; }

}  // namespace cogwheel::inspect
