// The tables of a task: its measures by difficulty, and what else it found in each model.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/runs/inspection.h"

namespace cogwheel::compare {

struct TaskTable {
  std::string title, lead;
  std::string heads, rows;  // HTML; the other parts are escaped when they are shown
  std::string chart = {};   // HTML
};

// `inspections`: those with tables, ordered by seed and then as the mechanisms are.
std::vector<TaskTable> task_tables(const Comparison& comparison,
                                   const std::vector<const runs::Inspection*>& inspections);

// A section for each, with the identifier task-table-<its place>.
std::string task_tables_html(const std::vector<TaskTable>& tables);

}  // namespace cogwheel::compare
