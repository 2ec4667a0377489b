#include "cogwheel/attention/authoring/header_text.h"

#include <array>
#include <cstdio>
#include <vector>

#include "cogwheel/attention/authoring/energy.h"

namespace cogwheel::authoring {
namespace {

std::string cpp_number(double value) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.17g", value);
  std::string number = text.data();
  if (number.find_first_of(".en") == std::string::npos) number += ".0";
  return number;
}

// A string literal of C++; formulas hold nothing but printable characters and UTF-8.
std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + "\"";
}

// Statements of one function. Common subexpressions are computed once: f and g mostly share their exponential.
class Body {
 public:
  std::string value(const Expression& expression) {
    if (expression.is_number()) return "lane::constant<V>(" + cpp_number(expression.value) + ")";
    const std::string& name = expression.name;
    if (expression.arguments.empty()) return variable_name(name);
    const auto part = [&](std::size_t i) { return value(*expression.arguments[i]); };
    if (name == "neg") return std::string("(-").append(part(0)).append(")");
    if (name == "^") return call("lane::power<" + to_text(*expression.arguments[1]) + ">(" + part(0) + ")");
    if (!((name.front() >= 'a' && name.front() <= 'z'))) {
      const std::string left = part(0), right = part(1);
      return std::string("(").append(left).append(" ").append(name).append(" ").append(right).append(")");
    }
    std::string arguments;
    for (std::size_t i = 0; i < expression.arguments.size(); ++i) arguments += (i == 0 ? "" : ", ") + part(i);
    return call("lane::" + (name == "where" ? "select" : name) + "(" + arguments + ")");
  }

  const std::string& statements() const { return statements_; }

 private:
  static std::string variable_name(const std::string& name) {
    if (name == "s") return "s";
    if (name == "G") return "mass";
    if (name == "shift") return "row.shift";
    if (name == "visible") return "row.visible";
    return name + "_";  // a parameter's name may be a keyword of C++
  }

  static std::string temporary(std::size_t index) { return std::string("t").append(std::to_string(index)); }

  std::string call(const std::string& code) {
    for (std::size_t i = 0; i < calls_.size(); ++i)
      if (calls_[i] == code) return temporary(i);
    calls_.push_back(code);
    const std::string name = temporary(calls_.size() - 1);
    statements_ += "    const V " + name + " = " + code + ";\n";
    return name;
  }

  std::vector<std::string> calls_;
  std::string statements_;
};

std::string parameters_read(const MechanismDefinition& definition) {
  std::string code;
  for (std::size_t i = 0; i < definition.parameters.size(); ++i)
    code +=
        "    [[maybe_unused]] const V " + definition.parameters[i].first + "_ = theta[" + std::to_string(i) + "];\n";
  return code;
}

}  // namespace

std::string struct_name(std::string_view name) {
  std::string camel;
  bool up = true;
  for (const char c : name) {
    if (c == '_') {
      up = true;
      continue;
    }
    camel += up && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    up = false;
  }
  return camel;
}

std::string defined_struct_name(std::string_view name) { return std::string("Defined").append(struct_name(name)); }

std::string header_of(const MechanismDefinition& definition) {
  const std::size_t count = definition.parameters.size();
  const std::string theta = "std::array<V, " + std::to_string(count) + ">";
  const std::string theta_argument = count == 0 ? "" : ", " + theta + " theta";
  std::string names, values;
  for (const auto& [name, value] : definition.parameters) {
    names += (names.empty() ? "" : ", ") + name;
    values += (values.empty() ? "" : ", ") + cpp_number(value);
  }
  std::string quoted_names;
  for (const auto& [name, value] : definition.parameters)
    quoted_names += (quoted_names.empty() ? "" : ", ") + string_literal(name);

  std::string text = "// " + definition.text + "\n#pragma once\n";
  text +=
      "#include \"cogwheel/attention/mechanisms/contract.h\"\n#include "
      "\"cogwheel/attention/mechanisms/description.h\"\n";
  text += "#include \"cogwheel/attention/mechanisms/lane.h\"\n\nnamespace cogwheel {\n\n";
  text += "struct " + defined_struct_name(definition.name) + " {\n";
  text +=
      "  static constexpr Description description{\n      .name = " + string_literal(definition.name) +
      ",\n      .title = " + string_literal(definition.name) +
      ",\n      .family = \"pairwise\",\n      .level = \"operator\",\n      .parameters = " + string_literal(names) +
      ",\n      .formula = " + string_literal(formula_of(definition)) +
      ",\n      .range = \"see its numerics card\",\n      .citation = \"defined by its user\",\n  };\n\n";
  if (count > 0)
    text += "  static constexpr std::array<std::string_view, " + std::to_string(count) + "> parameter_names{" +
            quoted_names + "};\n  static constexpr std::array<double, " + std::to_string(count) +
            "> parameter_defaults{" + values + "}, parameter_initial{" + values + "};\n\n";

  const auto function = [&](const std::string& head, const ExpressionPointer& value) {
    Body body;
    const std::string result = body.value(*value);
    text += "  template <class V>\n  static constexpr V " + head + " {\n" + parameters_read(definition) +
            body.statements() + "    return " + result + ";\n  }\n\n";
  };
  if (definition.energy) function("energy([[maybe_unused]] V s" + theta_argument + ")", definition.energy);
  if (definition.initial_energy)
    function("initial_energy([[maybe_unused]] " + theta + " theta)", definition.initial_energy);

  const auto in_row = [&](const ExpressionPointer& x) {
    return definition.energy && !x->is_number(0) ? shifted(x, definition.energy) : x;
  };
  Body body;
  const std::string f = body.value(*in_row(definition.f)), g = body.value(*in_row(definition.g));
  text += "  template <class V>\n  static constexpr Terms<V> terms([[maybe_unused]] V s, [[maybe_unused]] Row<V> row" +
          theta_argument + ") {\n" + parameters_read(definition) + body.statements() + "    return {.weight = " + f +
          ", .mass = " + g + "};\n  }\n\n";
  ExpressionPointer n = definition.n;
  if (definition.energy) {
    const LinearInMass linear = *linear_in_mass(n);
    n = apply("*", {linear.factor, variable("G")});
    if (!linear.constant->is_number(0)) n = apply("+", {n, shifted(linear.constant, definition.initial_energy)});
  }
  function("normalizer([[maybe_unused]] V mass, [[maybe_unused]] Row<V> row" + theta_argument + ")", n);
  text.pop_back();
  return text + "};\n\n}  // namespace cogwheel\n";
}

std::string named_text(std::string text, std::string_view name) {
  std::string title(name);
  for (char& c : title)
    if (c == '_') c = ' ';
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  const std::pair<std::string_view, std::string> fields[] = {
      {"@name@", std::string(name)}, {"@Struct@", struct_name(name)}, {"@Title@", title}};
  for (const auto& [field, value] : fields)
    for (std::size_t at = 0; (at = text.find(field, at)) != std::string::npos; at += value.size())
      text.replace(at, field.size(), value);
  return text;
}

std::string header_to_start_from(std::string_view name) {
  return named_text(R"(// @name@: its purpose in one line.
//
//   a_j = sign(s_j) exp|s_j| / Σ_k exp|s_k|
//   Where it comes from: authors, title (year), equation.
//
// A mechanism is f, g and N of the contract (cogwheel/attention/mechanisms/contract.h):
//
//   a_j = f(s_j) / N(G),   G = Σ_k g(s_k),   o = Σ_j a_j v_j
//
// with s a score, scale · q·k, and sums over the keys that the query sees. Derivatives are made automatically. Use
// + - * / and the functions of cogwheel/attention/mechanisms/lane.h (lane::exp, abs, sign, max, tanh, sqrt, …); V is a number, a
// SIMD register or a dual number, so there is no `if` on values: use lane::select(a > b, x, y).
//
//   cogwheel mechanism check --mechanism-file @name@.h     compiles it, checks it, prints its numerics card
//   cogwheel compare --mechanism-file @name@.h --attention softmax,@name@
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

// Named after the file. NormalizedByMass means N = G; for another N remove it and write `normalizer`, below.
struct @Struct@ : NormalizedByMass {
  static constexpr Description description{
      .name = "@name@",  // what --attention and attention(…) take
      .title = "@Title@",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",  // names of learnable scalars, separated by commas
      .formula = "sign(s) exp|s| / Σ exp|s|",
      .range = "weights in [-1, 1], Σ|a| = 1, row sum in [-1, 1]",
      .citation = "where it comes from",
  };

  // f (weight) and g (mass). With an energy, divide both by exp(row.shift): the shift is the row maximum of the energy,
  // so the largest exponent is 0. row.visible is the number of keys that the query sees.
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    const V mass = lane::exp_nonpositive(lane::abs(s) - row.shift);
    return {.weight = lane::sign(s) * mass, .mass = mass};
  }

  // The exponent of f and g, if they are exponentials. If they are not, remove it and do not use row.shift.
  template <class V>
  static constexpr V energy(V s) {
    return lane::abs(s);
  }

  // Another N of the row's total G (mass), such as 1 + G. With an energy, divide it by exp(row.shift) too.
  //
  // template <class V>
  // static constexpr V normalizer(V mass, Row<V> row) {
  //   return mass + lane::exp(-row.shift);
  // }

  // Derivatives f′ and g′ follow automatically. Where others are needed, as at a jump, define `derivatives`, declared
  // as `terms` is.

  // Learnable scalars, one set per head: their names, defaults, and initial values in a layer. Every function above may
  // then take std::array<V, 1> theta as its last argument.
  //
  // static constexpr std::array<std::string_view, 1> parameter_names{"tau"};
  // static constexpr std::array<double, 1> parameter_defaults{1.0}, parameter_initial{1.0};
};

}  // namespace cogwheel
)",
                    name);
}

}  // namespace cogwheel::authoring
