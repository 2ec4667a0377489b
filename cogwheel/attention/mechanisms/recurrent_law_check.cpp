#include "cogwheel/attention/mechanisms/recurrent_law_check.h"

#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel {

void check_recurrent_law(const RecurrentLaw& law) {
  const LawFault fault = fault_of(law);
  if (!fault) return;
  std::string what = std::string(law.name.empty() ? "law" : law.name) + ": " + std::string(fault.part);
  if (!fault.aspect.empty()) what += ": " + std::string(fault.aspect);
  std::string expected(fault.expected);
  if (expected.empty() && fault.aspect.empty()) {
    std::vector<std::string> names;
    for (const ReadParameter& each : parameters_read(law)) names.emplace_back(each.name);
    expected = names.empty()       ? "none, for the law reads none"
               : names.size() == 1 ? names.front()
                                   : expected_names(fault.got, names);
  }
  throw UsageError(expected_got(what, expected.empty() ? "none, a number" : expected,
                                fault.got.empty() ? "none" : std::string(fault.got)));
}

}  // namespace cogwheel
