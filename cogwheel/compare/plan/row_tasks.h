// The tasks of the rows of a comparison.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::compare {

// One task for all rows, and one of its own for each row that sets keys of [task]. All measure the same items alike.
class RowTasks {
 public:
  explicit RowTasks(std::shared_ptr<const runs::Task> shared) : shared_(std::move(shared)) {}

  void set(std::string row, std::shared_ptr<const runs::Task> task) {
    own_.insert_or_assign(std::move(row), std::move(task));
  }

  const std::shared_ptr<const runs::Task>& shared() const { return shared_; }
  const std::shared_ptr<const runs::Task>& of(std::string_view row) const {
    const auto own = own_.find(row);
    return own == own_.end() ? shared_ : own->second;
  }

 private:
  std::shared_ptr<const runs::Task> shared_;
  std::map<std::string, std::shared_ptr<const runs::Task>, std::less<>> own_ = {};
};

// The tasks of a planned comparison, which evaluate the same items for every run. `comparison.data` is filled in if it
// is empty and must agree otherwise; rows without a size are matched. Throws UsageError for a row that would change
// the data or the measures of the others, Error where this machine cannot train one of them. `folder`: of a resumed
// comparison, whose records tell what has changed.
RowTasks load_tasks(Comparison& comparison, const std::filesystem::path& folder = {});

}  // namespace cogwheel::compare
