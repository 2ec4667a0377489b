// Reads the options of a task, [task] in a configuration.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/core/range.h"

namespace cogwheel {

class TaskOptionReader {
 public:
  explicit TaskOptionReader(const TaskOptions& options) : given_(options) {}

  // The given value, else the default. Throws UsageError for another type or a number out of range.
  std::int64_t whole(const std::string& name, std::int64_t otherwise, const Range<std::int64_t>& range);

  // Every option with its value. Throws UsageError, with the nearest names, for one that was given and never read.
  TaskOptions finish() const;

 private:
  const TaskOptions& given_;
  TaskOptions read_ = {};
};

}  // namespace cogwheel
