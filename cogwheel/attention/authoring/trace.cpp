#include "cogwheel/attention/authoring/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>

namespace cogwheel::authoring {
namespace {

class Tracer {
 public:
  std::size_t step_of(const ExpressionPointer& expression) {
    if (const auto seen = seen_.find(expression.get()); seen != seen_.end()) return seen->second;
    TraceStep step{.name = expression->name, .value = expression->value};
    for (const ExpressionPointer& argument : expression->arguments) step.arguments.push_back(step_of(argument));
    const std::size_t number = number_of(folded(std::move(step)));
    seen_.emplace(expression.get(), number);
    return number;
  }

  Trace trace;

 private:
  // Numbers by their bits, which tell −0 from 0.
  using Key = std::tuple<std::string, std::uint64_t, std::vector<std::size_t>>;

  // An operation on numbers alone is a number.
  TraceStep folded(TraceStep step) const {
    const auto is_number = [&](std::size_t argument) { return trace.steps[argument].is_number(); };
    if (step.arguments.empty()) return step;
    if (step.name == "where" && is_number(step.arguments[0]))
      return trace.steps[step.arguments[trace.steps[step.arguments[0]].value != 0 ? 1 : 2]];
    if (!std::all_of(step.arguments.begin(), step.arguments.end(), is_number)) return step;
    std::array<long double, max_arguments> arguments{};
    for (std::size_t i = 0; i < step.arguments.size(); ++i) arguments[i] = trace.steps[step.arguments[i]].value;
    const long double value = value_of_operation(step.name, {arguments.data(), step.arguments.size()});
    return {.name = {}, .value = static_cast<double>(value)};
  }

  std::size_t number_of(TraceStep step) {
    const auto [at, is_new] =
        numbers_.try_emplace({step.name, std::bit_cast<std::uint64_t>(step.value), step.arguments}, trace.steps.size());
    if (is_new) trace.steps.push_back(std::move(step));
    return at->second;
  }

  std::unordered_map<const Expression*, std::size_t> seen_;
  std::map<Key, std::size_t> numbers_;
};

// Without steps that no result needs, such as numbers that were folded.
Trace pruned(const Trace& trace) {
  std::vector<bool> needed(trace.steps.size(), false);
  for (const std::size_t result : trace.results) needed[result] = true;
  for (std::size_t i = trace.steps.size(); i-- > 0;)
    if (needed[i])
      for (const std::size_t argument : trace.steps[i].arguments) needed[argument] = true;
  std::vector<std::size_t> moved(trace.steps.size());
  Trace kept;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    if (!needed[i]) continue;
    moved[i] = kept.steps.size();
    kept.steps.push_back(trace.steps[i]);
    for (std::size_t& argument : kept.steps.back().arguments) argument = moved[argument];
  }
  for (const std::size_t result : trace.results) kept.results.push_back(moved[result]);
  return kept;
}

}  // namespace

std::vector<std::size_t> Trace::last_uses() const {
  std::vector<std::size_t> last(steps.size(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const std::size_t argument : steps[i].arguments) last[argument] = i;
  for (const std::size_t result : results) last[result] = steps.size();
  return last;
}

Trace trace_of(std::span<const ExpressionPointer> functions) {
  Tracer tracer;
  for (const ExpressionPointer& function : functions) tracer.trace.results.push_back(tracer.step_of(function));
  return pruned(tracer.trace);
}

}  // namespace cogwheel::authoring
