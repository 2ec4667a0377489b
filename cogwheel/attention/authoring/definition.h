// A mechanism in one line: f, g, N and the energy as formulas of the score s, and learnable parameters by name.
//
//   mine: f = sign(s)*exp(tau*abs(s)); g = exp(tau*abs(s)); tau = 1
//
// as `--define` takes it. Formulas may use s, the parameters, and `visible`, the number of keys that the query sees; n
// also G, the row's total of g.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/attention/authoring/expression.h"

namespace cogwheel::authoring {

// As a user gives it. Empty texts are not given.
struct DefinitionText {
  std::string name, f, g, n, energy;
  std::vector<std::pair<std::string, double>> parameters;  // with the values that a layer starts at
};

// Throws UsageError where a part is unknown, appears twice or is not `key = formula`.
DefinitionText split_definition(std::string_view text);

struct MechanismDefinition {
  std::string name;
  ExpressionPointer f, g, n;
  ExpressionPointer energy;          // null if none was given and none can be derived
  ExpressionPointer initial_energy;  // exponent of what n adds to G, if there is an energy; null if n adds nothing
  std::vector<std::pair<std::string, double>> parameters;
  std::string text;  // canonical, whatever spaces and parentheses the user wrote: equal for equal definitions
};

// Throws UsageError, one line, with the column in the user's text where a formula does not parse.
MechanismDefinition parse_definition(const DefinitionText& text);
inline MechanismDefinition parse_definition(std::string_view text) { return parse_definition(split_definition(text)); }

// The weights as the catalogue shows them: "exp(s) / Σ exp(s)".
std::string formula_of(const MechanismDefinition& definition);

// Throws UsageError where it cannot be a mechanism's name: lower-case letters, digits and underscores, beginning with a
// letter.
void check_mechanism_name(std::string_view name);

}  // namespace cogwheel::authoring
