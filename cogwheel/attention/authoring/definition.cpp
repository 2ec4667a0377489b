#include "cogwheel/attention/authoring/definition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cogwheel/attention/authoring/argument_names.h"
#include "cogwheel/attention/authoring/energy.h"
#include "cogwheel/attention/authoring/excerpt.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

constexpr std::string_view syntax = "NAME: f = FORMULA; g = FORMULA";
constexpr std::size_t max_parameters = 16;  // a kernel carries a derivative along each

// Names that formulas use, and the parts of a definition. `shift` is the row maximum in generated formulas.
constexpr std::array<std::string_view, 10> taken{"s", "G", "visible", "shift", "f", "g", "n", "N", "energy", "name"};

bool is_taken(std::string_view name) {
  return is_argument(name) || std::find(taken.begin(), taken.end(), name) != taken.end();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::string formula_text(double value) { return to_text(*number(value)); }

// Values of formulas at a score, with the parameters at their initial values.
std::function<long double(std::string_view)> at_score(const MechanismDefinition& definition, long double score) {
  return [&definition, score](std::string_view name) -> long double {
    for (const auto& [parameter, value] : definition.parameters)
      if (parameter == name) return value;
    return name == "s" ? score : 16;  // `visible`
  };
}

// Whether exp(−m), with m the growth of g, brings f and g into the range of numbers: the growth of f is never far above
// m, and g itself not far below exp(m).
bool bounds(const MechanismDefinition& definition, const ExpressionPointer& energy) {
  const ExpressionPointer of_f = growth(definition.f);
  for (const double size : {0.0, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4})
    for (const double score : {-size, size}) {
      const auto values = at_score(definition, score);
      const long double above = evaluate(*of_f, values) - evaluate(*energy, values);
      if (!(above <= 50)) return false;
      // Where a denominator cancels the growth, as in exp(s)/(1 + exp(s)), there is nothing to shift.
      const long double mass = std::abs(evaluate(*definition.g, values));
      if (mass > 0 && std::log(mass) < evaluate(*energy, values) - 50) return false;
    }
  return true;
}

void find_energy(MechanismDefinition& definition, bool given) {
  const auto linear = linear_in_mass(definition.n);
  if (given && !linear)
    throw UsageError(expected_got(definition.name + ": n", "a·G + b, which the energy can rescale",
                                  excerpt(to_text(*definition.n))));
  if (!given) {
    const ExpressionPointer exponent = growth(definition.g);
    if (!linear || !uses(*exponent, "s") || uses(*exponent, "visible") || !bounds(definition, exponent)) return;
    definition.energy = exponent;
  }
  if (linear->constant->is_number(0)) return;
  const ExpressionPointer exponent = growth(linear->constant);
  definition.initial_energy = uses(*exponent, "visible") ? number(0) : exponent;
}

// Reports a logarithm of negative scores now, not after a compiler ran.
void check_numbers(const MechanismDefinition& definition) {
  for (const double score : {-7.3, -1.25, -0.01, 0.013, 0.8, 7.1})
    for (const auto& [part, formula] : {std::pair("f", definition.f), std::pair("g", definition.g)})
      if (std::isnan(evaluate(*formula, at_score(definition, score))))
        throw UsageError(expected_got(definition.name + ": " + part + " at s = " + formula_text(score), "a number",
                                      "none (the logarithm or root of a negative number, or 0/0)"));
}

}  // namespace

void check_mechanism_name(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= 40 && name.front() >= 'a' && name.front() <= 'z' &&
                    std::all_of(name.begin(), name.end(),
                                [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!fits)
    throw UsageError(expected_got("mechanism",
                                  "a name of up to 40 lower-case letters, digits and _, beginning with a letter",
                                  name.empty() ? "none" : excerpt(name)));
}

DefinitionText split_definition(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    throw UsageError(expected_got("definition", syntax, trimmed(text).empty() ? "nothing" : excerpt(text)));
  DefinitionText definition;
  definition.name = trimmed(text.substr(0, colon));
  check_mechanism_name(definition.name);
  std::vector<std::string> seen;
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view part = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      throw UsageError(
          expected_got(definition.name, "parts of the form KEY = FORMULA with ; between them", excerpt(part)));
    std::string key(trimmed(part.substr(0, equals)));
    const std::string value(trimmed(part.substr(equals + 1)));
    if (key == "N") key = "n";
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      throw UsageError(expected_got(definition.name, "each part once", excerpt(key) + " twice"));
    seen.push_back(key);
    const std::pair<std::string_view, std::string*> formulas[] = {
        {"f", &definition.f}, {"g", &definition.g}, {"n", &definition.n}, {"energy", &definition.energy}};
    const auto formula =
        std::find_if(std::begin(formulas), std::end(formulas), [&](auto& f) { return f.first == key; });
    if (formula != std::end(formulas)) {
      *formula->second = value;
      continue;
    }
    double initial = 0;
    const std::size_t sign = value.starts_with('+') ? 1 : 0;
    const auto [stopped, problem] = std::from_chars(value.data() + sign, value.data() + value.size(), initial);
    if (value.empty() || problem != std::errc() || stopped != value.data() + value.size())
      throw UsageError(expected_got(definition.name + ": " + excerpt(key),
                                    "a number, the parameter's initial value (formulas are f, g, n and energy)",
                                    value.empty() ? "nothing" : excerpt(value)));
    definition.parameters.emplace_back(key, initial);
  }
  return definition;
}

MechanismDefinition parse_definition(const DefinitionText& text) {
  check_mechanism_name(text.name);
  MechanismDefinition definition;
  definition.name = text.name;
  definition.parameters = text.parameters;
  if (text.parameters.size() > max_parameters)
    throw UsageError(expected_got(text.name + ": parameters", "at most " + std::to_string(max_parameters),
                                  std::to_string(text.parameters.size())));
  std::vector<std::string> names;
  for (const auto& [name, value] : text.parameters) {
    if (!is_free_name(name) || is_taken(name) || std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError(expected_got(text.name + ": parameter",
                                    "a name of up to 40 letters, digits and _ that nothing else has",
                                    name.empty() ? "none" : excerpt(name)));
    if (!std::isfinite(value))
      throw UsageError(expected_got(text.name + ": " + name, "a finite number", std::to_string(value)));
    names.push_back(name);
  }
  const auto parse = [&](const std::string& formula, const char* part, std::vector<std::string> variables) {
    if (formula.empty())
      throw UsageError(expected_got(
          text.name + ": " + part,
          std::string(part) == "g" ? "a formula (or g = 0 together with an n, where no sum is needed)" : "a formula",
          "none"));
    variables.insert(variables.end(), names.begin(), names.end());
    return parse_expression(formula, text.name + ": " + part, variables);
  };
  definition.f = parse(text.f, "f", {"s", "visible"});
  definition.g = parse(text.g, "g", {"s", "visible"});
  definition.n = text.n.empty() ? variable("G") : parse(text.n, "n", {"G", "visible"});
  if (!text.energy.empty()) definition.energy = parse(text.energy, "energy", {"s"});
  if (definition.g->is_number(0) && uses(*definition.n, "G"))
    throw UsageError(
        expected_got(text.name + ": n", "a formula without G where g is 0", excerpt(to_text(*definition.n))));

  definition.text = definition.name + ": f = " + to_text(*definition.f) + "; g = " + to_text(*definition.g);
  if (definition.n->name != "G") definition.text += "; n = " + to_text(*definition.n);
  if (definition.energy) definition.text += "; energy = " + to_text(*definition.energy);
  for (const auto& [name, value] : definition.parameters) definition.text += "; " + name + " = " + formula_text(value);
  find_energy(definition, definition.energy != nullptr);
  check_numbers(definition);
  return definition;
}

std::string formula_of(const MechanismDefinition& definition) {
  const std::string f = to_text(*definition.f), g = to_text(*definition.g), n = to_text(*definition.n);
  const auto factor = [](const std::string& text, const Expression& expression) {
    const bool sum = expression.name == "+" || expression.name == "-" || expression.name == "neg";
    return sum ? std::string("(").append(text).append(")") : text;
  };
  if (definition.n->name == "G") return factor(f, *definition.f) + " / Σ " + factor(g, *definition.g);
  if (definition.n->is_number(1)) return f;
  std::string formula = factor(f, *definition.f) + " / (" + n + ")";
  if (uses(*definition.n, "G")) formula += ", G = Σ " + factor(g, *definition.g);
  return formula;
}

}  // namespace cogwheel::authoring
