#include "cogwheel/attention/authoring/card/numerics_card.h"

#include <algorithm>

#include "cogwheel/attention/authoring/card/function_measures.h"
#include "cogwheel/attention/authoring/card/kernel_measures.h"
#include "cogwheel/attention/authoring/card/measured_map.h"

namespace cogwheel::authoring {

NumericsCard numerics_card(const Mechanism& mechanism) {
  const MeasuredMap map(mechanism);
  NumericsCard card{.mechanism = map.name(), .facts = {}, .problems = {}};
  card.facts.emplace_back("weights", mechanism.description.formula);
  const FunctionMeasures functions = measure_functions(map, mechanism.definition, card);
  if (functions.finite.problems.empty()) check_kernel(map, functions.finite, card);
  measure_errors(map, card);
  measure_flips(functions.moves_at_zero, card);
  measure_determinism(map, card);
  return card;
}

std::string to_text(const NumericsCard& card) {
  std::size_t widest = 0;
  // Columns on a screen; labels are ASCII.
  for (const auto& [what, found] : card.facts) widest = std::max(widest, what.size());
  std::string text = card.mechanism + "\n";
  for (const auto& [what, found] : card.facts)
    text += std::string("  ").append(what).append(widest - what.size() + 2, ' ').append(found).append("\n");
  for (const std::string& problem : card.problems) text += std::string("  problem: ").append(problem).append("\n");
  return text;
}

}  // namespace cogwheel::authoring
