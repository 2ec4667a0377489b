#include "cogwheel/research/labs/labs.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::labs {

#define LAB(name) LabEntry name##_lab();
#include "cogwheel/research/labs/labs.def"
#undef LAB

std::span<const LabEntry> labs() {
  static const std::vector<LabEntry> all{
#define LAB(name) name##_lab(),
#include "cogwheel/research/labs/labs.def"
#undef LAB
  };
  return all;
}

const LabEntry& find_lab(std::string_view name, std::string_view what) {
  std::vector<std::string> names;
  for (const LabEntry& entry : labs()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw UsageError(expected_got(what, expected_names(name, names), name));
}

}  // namespace cogwheel::labs
