// Reads the options of a task, [task] in a configuration.
#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::runs {

class TaskOptionReader {
 public:
  explicit TaskOptionReader(const TaskOptions& options) : given_(options) {}

  // The given value, else the default. Throws UsageError for another type, a number out of range or an unknown word.
  std::int64_t whole(const std::string& name, std::int64_t otherwise, const Range<std::int64_t>& range);
  double number(const std::string& name, double otherwise, const Range<double>& range);
  std::string word(const std::string& name, const std::string& otherwise, const std::vector<std::string>& known);
  bool yes(const std::string& name, bool otherwise);
  // A file, absolute and normal; empty: none.
  std::string path(const std::string& name);
  // An option that came after runs without it: recorded only where it is given, so that these can be resumed.
  std::int64_t later_whole(const std::string& name, std::int64_t otherwise, const Range<std::int64_t>& range);
  double later_number(const std::string& name, double otherwise, const Range<double>& range);
  std::string later_word(const std::string& name, const std::string& otherwise, const std::vector<std::string>& known);
  std::string later_path(const std::string& name);
  // Empty where it is not given.
  std::string later_word(const std::string& name, const std::vector<std::string>& known);
  // The same of what a run records of its data, not for people to give: false, or empty, where it does not.
  bool later_yes(const std::string& name);
  std::string later_text(const std::string& name);

  // Every option with its value. Throws UsageError, with the nearest names, for one that was given and never read.
  TaskOptions finish() const;

 private:
  const ConfigValue* find(const std::string& name) const;

  const TaskOptions& given_;
  TaskOptions read_ = {};
  std::set<std::string> later_ = {};
};

// Sets the vocabulary in the options of a model that has one, which the task or its data decides. Throws UsageError,
// saying `why` after the number, where they say another.
void set_vocabulary(RunConfig& config, std::int64_t vocabulary, const std::string& why);

// The vocabulary that the options of a model give, 0 where they have none. Throws UsageError where it is not in
// `range`.
std::int64_t given_vocabulary(const RunConfig& config, const Range<std::int64_t>& range);

// A path as a run records it: absolute and normal. Throws UsageError that names `what` where it is not in UTF-8, which
// neither TOML nor JSON can hold.
std::string recorded_path(const std::filesystem::path& path, std::string_view what);

// Throws Error where a run of this configuration recorded another hash of its data.
void expect_recorded_data(const RunConfig& config, const std::string& name, const std::string& sha256);

}  // namespace cogwheel::runs
