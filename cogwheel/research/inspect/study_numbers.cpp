#include "cogwheel/research/inspect/study_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/pages/headline.h"

namespace cogwheel::inspect {

void NumbersByRun::set(std::size_t run, const std::string& name, std::optional<double> place, double value) {
  auto found =
      std::ranges::find_if(all_, [&](const NumbersOfRuns& each) { return each.name == name && each.place == place; });
  if (found == all_.end())
    found = all_.insert(
        found,
        {.name = name, .place = place, .values = std::vector<double>(runs_, std::numeric_limits<double>::quiet_NaN())});
  found->values.at(run) = value;
}

std::vector<double> NumbersByRun::values(const std::string& name, std::optional<double> place) const {
  for (const NumbersOfRuns& each : all_)
    if (each.name == name && each.place == place) return each.values;
  return std::vector<double>(runs_, std::numeric_limits<double>::quiet_NaN());
}

std::vector<double> NumbersByRun::places(const std::string& name) const {
  std::vector<double> places;
  for (const NumbersOfRuns& each : all_)
    if (each.name == name && each.place) places.push_back(*each.place);
  std::ranges::sort(places);
  return places;
}

compare::Estimate NumbersByRun::of_group(const RunGroup& group, const std::string& name,
                                         std::optional<double> place) const {
  return mean_of_group(group, values(name, place));
}

std::string NumbersByRun::cell(const RunGroup& group, const std::string& name, std::optional<double> place) const {
  return estimate_text(of_group(group, name, place));
}

std::string NumbersByRun::told(const std::vector<RunGroup>& groups, const std::string& name,
                               std::optional<double> place, const char* format) const {
  std::vector<pages::Told> each;
  for (const RunGroup& group : groups) {
    const double mean = of_group(group, name, place).mean;
    each.push_back({group.said, mean, fmt::format(fmt::runtime(format), mean)});
  }
  const std::string text = pages::told(each);
  return text.empty() ? "not measured" : text;
}

pages::ChartSeries NumbersByRun::series(const RunGroup& group, const std::string& name) const {
  const std::vector<double> x = places(name);
  std::vector<std::vector<double>> of_runs(runs_);
  for (const double place : x) {
    const std::vector<double> each = values(name, place);
    for (std::size_t run = 0; run < runs_; ++run) of_runs[run].push_back(each[run]);
  }
  return group_series(group, x, of_runs);
}

pages::TextTable table_of_groups(const std::string& title, const std::vector<RunGroup>& groups,
                                 const NumbersByRun& numbers,
                                 const std::vector<std::pair<std::string, std::string>>& columns) {
  pages::TextTable table{title, {"runs"}, {}};
  for (const auto& [name, number] : columns) table.columns.push_back(name);
  for (const RunGroup& group : groups) {
    std::vector<std::string> row{group.name};
    for (const auto& [name, number] : columns) row.push_back(numbers.cell(group, number));
    table.rows.push_back(std::move(row));
  }
  return table;
}

pages::TextTable table_by_place(const std::string& title, const std::string& place, const std::vector<RunGroup>& groups,
                                const NumbersByRun& numbers,
                                const std::vector<std::pair<std::string, std::string>>& columns) {
  pages::TextTable table{title, {"runs", place}, {}};
  for (const auto& [name, number] : columns) table.columns.push_back(name);
  for (const RunGroup& group : groups)
    for (const double at : numbers.places(columns.front().second)) {
      if (!std::isfinite(numbers.of_group(group, columns.front().second, at).mean)) continue;
      std::vector<std::string> row{group.name, study_number(at)};
      for (const auto& [name, number] : columns) row.push_back(numbers.cell(group, number, at));
      table.rows.push_back(std::move(row));
    }
  return table;
}

double mean_of_finite(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (std::isfinite(value)) sum += value, ++count;
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace cogwheel::inspect
