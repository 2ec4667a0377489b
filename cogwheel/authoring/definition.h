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

#include "cogwheel/authoring/expression.h"

namespace cogwheel {

// As a user gives it. Empty texts are not given.
struct DefinitionText {
  std::string name, f, g, n, energy;
  std::vector<std::pair<std::string, double>> parameters;  // with the values that a layer starts at
};

// Throws UsageError where a part is unknown, comes twice or is no `key = formula`.
DefinitionText split_definition(std::string_view text);

struct MechanismDefinition {
  std::string name;
  ExpressionPointer f, g, n;
  ExpressionPointer energy;          // null: none was given and none can be derived
  ExpressionPointer initial_energy;  // of what n adds to G, where there is an energy; null: nothing
  std::vector<std::pair<std::string, double>> parameters;
  std::string text;  // in one form, whatever the spaces and parentheses of the user: what tells definitions apart
};

// Throws UsageError, one line, with the user's own column where a formula does not read.
MechanismDefinition parse_definition(const DefinitionText& text);
inline MechanismDefinition parse_definition(std::string_view text) { return parse_definition(split_definition(text)); }

// The weights as the catalogue shows them: "exp(s) / Σ exp(s)".
std::string formula_of(const MechanismDefinition& definition);

// Throws UsageError where it is no name of a mechanism: lower-case letters, digits and underscores, from a letter on.
void check_mechanism_name(std::string_view name);

}  // namespace cogwheel
