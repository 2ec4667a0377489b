// What functions compute, step by step: expressions with each step once, in an order in which they can be made.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/expression.h"

namespace cogwheel::authoring {

struct TraceStep {
  std::string name;                         // as that of an Expression: of an operation or a variable, none of a number
  double value = 0;                         // of a number
  std::vector<std::size_t> arguments = {};  // steps before this one

  bool is_number() const { return name.empty(); }
  bool is_variable() const { return !is_number() && arguments.empty(); }
};

struct Trace {
  std::vector<TraceStep> steps;
  std::vector<std::size_t> results;  // the step of each function

  // For each step, the last one that reads it; of a result, and of what nothing reads, the number of steps.
  std::vector<std::size_t> last_uses() const;
};

// Of functions that may share nodes. Equal steps become one, wherever they stand, and operations on numbers alone a
// number.
Trace trace_of(std::span<const ExpressionPointer> functions);

}  // namespace cogwheel::authoring
