// The numbers of each run, and what tables, charts and answers make of them.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/pages/line_chart.h"
#include "cogwheel/research/inspect/run_groups.h"
#include "cogwheel/research/inspect/study.h"

namespace cogwheel::inspect {

class NumbersByRun {
 public:
  explicit NumbersByRun(std::size_t runs) : runs_(runs) {}

  void set(std::size_t run, const std::string& name, double value) { set(run, name, {}, value); }
  void set(std::size_t run, const std::string& name, std::optional<double> place, double value);

  // NaN where a run has none.
  std::vector<double> values(const std::string& name, std::optional<double> place = {}) const;
  // At which the number is taken, rising.
  std::vector<double> places(const std::string& name) const;
  // Mean over the runs of a group, with its interval.
  compare::Estimate of_group(const RunGroup& group, const std::string& name, std::optional<double> place = {}) const;
  std::string cell(const RunGroup& group, const std::string& name, std::optional<double> place = {}) const;
  // The means of all groups in a sentence (pages::told); "not measured" where there are none.
  std::string told(const std::vector<RunGroup>& groups, const std::string& name, std::optional<double> place = {},
                   const char* format = "{:.3g}") const;
  // Over all places of the number.
  pages::ChartSeries series(const RunGroup& group, const std::string& name) const;

  std::vector<NumbersOfRuns> all() && { return std::move(all_); }

 private:
  std::size_t runs_;
  std::vector<NumbersOfRuns> all_ = {};
};

// A table with a row for each group: the mean over its runs of each number. `columns` names them, by (title, number).
pages::TextTable table_of_groups(const std::string& title, const std::vector<RunGroup>& groups,
                                 const NumbersByRun& numbers,
                                 const std::vector<std::pair<std::string, std::string>>& columns);
// The same with a row for each place at which the first number of a group is taken, in a column called `place`.
pages::TextTable table_by_place(const std::string& title, const std::string& place, const std::vector<RunGroup>& groups,
                                const NumbersByRun& numbers,
                                const std::vector<std::pair<std::string, std::string>>& columns);

// NaN where there are none that are finite.
double mean_of_finite(const std::vector<double>& values);

}  // namespace cogwheel::inspect
