#include "cogwheel/attention/authoring/triton_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <vector>

#include "cogwheel/attention/authoring/row_map_trace.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

std::string python_number(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::array<char, 32> text;
  const auto [end, problem] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string number(text.data(), end);
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  return number;
}

bool is_operator(const std::string& name) { return name.front() < 'a' || name.front() > 'z'; }

std::string function_in_triton(const std::string& name, std::size_t arguments) {
  if (name == "exp" || name == "exp_nonpositive") return "tl.exp";
  if (name == "log" || name == "sqrt" || name == "sin" || name == "cos" || name == "abs" || name == "where")
    return "tl." + name;
  if (name == "sigmoid" && arguments == 2) return "lane.sigmoid_with_odds";
  return "lane." + name;
}

// One function: a line for each step, and what it returns in the shape of `argument`.
std::string function_text(std::string_view name, std::string_view arguments, const Trace& trace) {
  std::vector<std::string> names;
  std::vector<bool> follows;  // whether the argument's shape is the step's
  std::string lines, returned;
  for (const TraceStep& step : trace.steps) {
    if (step.is_number() || step.is_variable()) {
      const bool scalar = step.name.starts_with("theta");
      names.push_back(step.is_number() ? python_number(step.value) : step.name);
      if (scalar) lines += "    " + step.name + " = tl.load(theta + " + step.name.substr(5) + ")\n";
      follows.push_back(step.name == argument_variable);
      continue;
    }
    std::string text;
    bool of_argument = false;
    for (const std::size_t argument : step.arguments) of_argument = of_argument || follows[argument];
    if (step.name == "neg") {
      text = "-" + names[step.arguments[0]];
    } else if (is_operator(step.name)) {
      text = names[step.arguments[0]] + " " + step.name + " " + names[step.arguments[1]];
    } else {
      for (const std::size_t argument : step.arguments) text += (text.empty() ? "" : ", ") + names[argument];
      text = function_in_triton(step.name, step.arguments.size()) + "(" + text + ")";
    }
    names.push_back("t" + std::to_string(names.size()));
    follows.push_back(of_argument);
    lines += "    " + names.back() + " = " + text + "\n";
  }
  for (const std::size_t result : trace.results)
    returned += (returned.empty() ? "" : ", ") +
                (follows[result] ? names[result] : "lane.filled(" + names[result] + ", argument)");
  return "\n\n@lane.jit\ndef " + std::string(name) + "(" + std::string(arguments) + "):\n" + lines + "    return " +
         returned + "\n";
}

}  // namespace

std::string triton_text(std::string_view mechanism) {
  const PairwiseMechanism* const found = find_mechanism(mechanism).pairwise();
  if (found == nullptr)
    throw UsageError(expected_got("mechanism", "one that is a function of scores", std::string(mechanism)));
  const PairwiseMechanism& map = *found;
  const bool has_sink = map.scalar->initial_energy != nullptr;
  const std::size_t scalars = map.scalar->parameters, variables = 1 + scalars;
  const auto recorded = [&](RowMapFunction function, int order) {
    return recorded_row_map(map.member, function, order);
  };
  for (const RowMapFunction function : {RowMapFunction::terms, RowMapFunction::normalizer})
    if (row_map_trace(map.member, function, 1) == nullptr) return "";

  const std::string of_row = "argument, shift, visible, theta";
  const auto energies = recorded(RowMapFunction::energy, 0);
  auto terms = recorded(RowMapFunction::terms, 0), normalizer = recorded(RowMapFunction::normalizer, 0);
  std::string text = "\"\"\"" + std::string(map.member) +
                     ", printed from its header by Cogwheel.\"\"\"\n\nimport triton.language as tl\n\n"
                     "from cogwheel.device_kernels import lane\n\n";
  const auto constant = [&](const char* name, const std::string& value) {
    text += std::string(name) + " = tl.constexpr(" + value + ")\n";
  };
  constant("PARAMETERS", std::to_string(scalars));
  constant("PADDED_PARAMETERS", std::to_string(std::bit_ceil(std::max<std::size_t>(scalars, 1))));
  constant("HAS_ENERGY", map.has_energy ? "True" : "False");
  constant("HAS_SINK", has_sink ? "True" : "False");
  // A number in a function's text, by which Triton tells compiled kernels apart.
  text +=
      "\n\n@lane.jit\ndef scalars_of_head(THETA, head):\n    return THETA + head * " + std::to_string(scalars) + "\n";
  text += function_text("energy", "argument, theta", trace_of(std::array{energies[0]}));
  text += function_text("initial_energy", "argument, theta", trace_of(std::array{energies[1]}));
  text += function_text("terms", of_row, trace_of(terms));
  text += function_text("normalizer", of_row, trace_of(normalizer));

  const auto of_terms = recorded(RowMapFunction::terms, 1), of_normalizer = recorded(RowMapFunction::normalizer, 1);
  terms.insert(terms.end(), {of_terms[0], of_terms[variables]});
  text += function_text("terms_with_derivatives", of_row, trace_of(terms));
  normalizer.insert(normalizer.end(), of_normalizer.begin(), of_normalizer.end());
  text += function_text("normalizer_with_derivatives", of_row, trace_of(normalizer));
  std::vector<ExpressionPointer> along_scalars;
  for (std::size_t p = 1; p < variables; ++p)
    along_scalars.insert(along_scalars.end(), {of_terms[p], of_terms[variables + p]});
  // There without scalars too, because a compiler looks up what it then leaves out.
  return text + function_text("parameter_derivatives", of_row, trace_of(along_scalars));
}

}  // namespace cogwheel::authoring
