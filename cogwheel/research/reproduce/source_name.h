// What pages call the five sources, by the folder of an experiment (docs/references.md#sources).
#pragma once
#include <string_view>

namespace cogwheel::reproduce {

struct SourceName {
  std::string_view folder;      // of experiments: "s2"
  std::string_view document;    // "S2"
  std::string_view called;      // "the lecture"
  std::string_view possessive;  // "the lecture's"
  std::string_view title;
};

// By the name of an experiment, "s2/hopfield", or of its folder. Throws UsageError that begins with `what` for a folder
// that is none of a source.
const SourceName& source_name(std::string_view experiment, std::string_view what);

}  // namespace cogwheel::reproduce
