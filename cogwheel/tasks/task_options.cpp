#include "cogwheel/tasks/task_options.h"

#include <variant>

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"

namespace cogwheel {

std::int64_t TaskOptionReader::whole(const std::string& name, std::int64_t otherwise,
                                     const Range<std::int64_t>& range) {
  const auto given = given_.values.find(name);
  std::int64_t value = otherwise;
  if (given != given_.values.end()) {
    const auto* const held = std::get_if<std::int64_t>(&given->second);
    if (held == nullptr) throw UsageError(expected_got("task." + name, "a whole number", "a value of another type"));
    value = *held;
  }
  expect_within("task." + name, value, range);
  read_.values[name] = value;
  return value;
}

TaskOptions TaskOptionReader::finish() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : read_.values) names.push_back(name);
  for (const auto& [name, value] : given_.values)
    if (!read_.values.contains(name))
      throw UsageError(expected_got(
          "task: key", names.empty() ? "none but name, for " + given_.name : expected_names(name, names), name));
  return {given_.name, read_.values};
}

}  // namespace cogwheel
