// Definitions in one line: what they mean, what energy they have, and where each mistake is shown.
#include "cogwheel/authoring/definition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cogwheel/authoring/argument_names.h"
#include "cogwheel/authoring/header_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

std::string refusal(const std::string& line) {
  try {
    parse_definition(line);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string energy_of(const std::string& line) {
  const MechanismDefinition definition = parse_definition(line);
  return definition.energy ? to_text(*definition.energy) : "none";
}

double value(const std::string& formula, double s) {
  const std::string names[] = {"s"};
  return static_cast<double>(evaluate(*parse_expression(formula, "f", names), [s](std::string_view) { return s; }));
}

TEST(Expression, MeansWhatItSays) {
  EXPECT_EQ(value("1 + 2*3 - 4/8", 0), 6.5);
  EXPECT_EQ(value("2 - 3 - 4", 0), -5);
  EXPECT_EQ(value("-s^2", 3), -9);
  EXPECT_EQ(value("(-s)^2", 3), 9);
  EXPECT_EQ(value("2^-2 * 1e1", 0), 2.5);
  EXPECT_EQ(value("where(s > 1, max(s, 4), min(s, -.5))", 2), 4);
  EXPECT_EQ(value("where(s > 1, max(s, 4), min(s, -.5))", 1), -0.5);
  EXPECT_EQ(value("sign(s)*abs(s) + square(2) + cube(2)", -5), 7);
  EXPECT_NEAR(value("log(exp(1.5)) + sqrt(4) + tanh(0) + sigmoid(0) + softplus(0)", 0), 4 + std::log(2.0), 1e-15);
}

TEST(Expression, PrintsWithTheParenthesesThatItNeeds) {
  const std::string names[] = {"s", "tau"};
  for (const std::string text : {"s - (tau - 1)", "s/(tau*2)", "(s + 1)*exp(-s)", "-(s + 1)", "(-s)^2", "-s^2",
                                 "where(s <= tau, s, 0)", "s*tau/2", "1 - s + 2", "(s^2)^3", "s*(-tau)"}) {
    const ExpressionPointer parsed = parse_expression(text, "f", names);
    EXPECT_TRUE(is_same(*parsed, *parse_expression(to_text(*parsed), "f", names))) << text << " → " << to_text(*parsed);
  }
  EXPECT_EQ(to_text(*parse_expression("((s))*(exp((tau * s)))", "f", names)), "s*exp(tau*s)");
}

TEST(Definition, EnergyIsDerivedWhereItCanBe) {
  EXPECT_EQ(energy_of("x: f = exp(s); g = exp(s)"), "s");
  EXPECT_EQ(energy_of("x: f = sign(s)*exp(abs(s)); g = exp(abs(s))"), "abs(s)");
  EXPECT_EQ(energy_of("x: f = exp(s)*exp(s); g = exp(s)^2"), "2*s");
  EXPECT_EQ(energy_of("x: f = s*exp(tau*s)/2; g = exp(tau*s); tau = 2"), "tau*s");
  EXPECT_EQ(energy_of("x: f = max(exp(s) - 1, 0); g = abs(exp(s) - 1)"), "max(s, 0)");
  EXPECT_EQ(energy_of("x: f = exp(s); g = exp(s); n = 1 + G"), "s");
  EXPECT_EQ(energy_of("x: f = exp(s); g = exp(s); energy = abs(s)"), "abs(s)");
  // None: no exponential, one that outgrows the mass, nothing that is summed, an N that no shift passes.
  EXPECT_EQ(energy_of("x: f = s; g = abs(s)"), "none");
  EXPECT_EQ(energy_of("x: f = exp(2*s); g = exp(s)"), "none");
  EXPECT_EQ(energy_of("x: f = exp(s); g = 0; n = 64"), "none");
  EXPECT_EQ(energy_of("x: f = exp(s); g = exp(2*s); n = sqrt(G)"), "none");
  EXPECT_EQ(energy_of("x: f = exp(s)/(1 + exp(s)); g = exp(s)/(1 + exp(s))"), "none");
}

TEST(Definition, WhatNAddsStartsTheShift) {
  const MechanismDefinition sink = parse_definition("x: f = exp(s); g = exp(s); n = G + exp(tau); tau = 0");
  ASSERT_NE(sink.initial_energy, nullptr);
  EXPECT_EQ(to_text(*sink.initial_energy), "tau");
  EXPECT_EQ(to_text(*parse_definition("x: f = exp(s); g = exp(s); n = 1 + G").initial_energy), "0");
  EXPECT_EQ(parse_definition("x: f = exp(s); g = exp(s); n = 2*G").initial_energy, nullptr);
}

TEST(Definition, IsTheSameWhateverTheSpaces) {
  EXPECT_EQ(parse_definition(" x :f=exp( s );g=(exp(s)) ").text, parse_definition("x: f = exp(s); g = exp(s)").text);
  EXPECT_EQ(formula_of(parse_definition("x: f = s - 1; g = abs(s)")), "(s - 1) / Σ abs(s)");
  EXPECT_EQ(formula_of(parse_definition("x: f = s; g = abs(s); N = 1 + G")), "s / (1 + G), G = Σ abs(s)");
}

TEST(Definition, MistakesAreShownAtTheirColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"x: f = sgn(s); g = 1",
       "x: f: expected sin, sign, min (the nearest of 16 names), got sgn (column 1)\n  sgn(s)\n  ^"},
      {"x: f = exp(s; g = 1", "x: f: expected a ) for this (, got the end (column 4)\n  exp(s\n     ^"},
      {"x: f = exp(s)); g = 1", "x: f: expected no more ), got ) (column 7)\n  exp(s))\n        ^"},
      {"x: f = 2*t; g = 1", "x: f: expected s (the nearest of 2 names), got t (column 3)\n  2*t\n    ^"},
      {"x: f = 2*; g = 1", "x: f: expected a number, a name or (, got the end (column 3)\n  2*\n    ^"},
      {"x: f = max(s); g = 1", "x: f: expected max(a, b), got 1 arguments (column 1)\n  max(s)\n  ^"},
      {"x: f = s^s; g = 1", "x: f: expected a whole number as exponent, got s (column 3)\n  s^s\n    ^"},
      {"x: f = exp + 1; g = 1", "x: f: expected exp(x), got exp (column 1)\n  exp + 1\n  ^"},
      {"x: f = s{}; g = 1", "x: f: expected an operator or the end, got { (column 2)\n  s{}\n   ^"},
      {"x: f = π*ß; g = 1", "x: f: expected a number, a name or (, got π (column 1)\n  π*ß\n  ^"}};
  for (const auto& [line, message] : cases) EXPECT_EQ(refusal(line), message);
}

TEST(Definition, WhatIsNoDefinitionIsOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"x: f = exp(s)", "x: g: expected a formula (g = 0 where nothing is summed, with an n of its own), got none"},
      {"x: g = exp(s)", "x: f: expected a formula, got none"},
      {"f = s", "definition: expected NAME: f = FORMULA; g = FORMULA, got f = s"},
      {"x: f = s; g = 1; f = 2", "x: expected each part once, got f twice"},
      {"x: f = s; g = 1; tau = s",
       "x: tau: expected a number, at which the parameter starts (formulas are f, g, n and energy), got s"},
      {"x: f = s; g = 1; window = 1", "x: parameter: expected a name of letters that nothing else has, got window"},
      {"x: f = s; g = 0", "x: n: expected a formula without G where g is 0, got G"},
      {"x: f = log(s); g = 1",
       "x: f at s = -7.3: expected a number, got none (the logarithm or root of a negative number, or 0/0)"},
      {"x: f = s; g = exp(s); n = sqrt(G); energy = s",
       "x: n: expected a·G + b, which the energy can rescale, got sqrt(G)"},
      {"Mine: f = s; g = 1",
       "mechanism: expected a name of lower-case letters, digits and _, from a letter on, up to 40, got Mine"},
      {"x; int main(){}: f = s; g = 1",
       "mechanism: expected a name of lower-case letters, digits and _, from a letter on, up to 40, got x; int "
       "main(){}"}};
  for (const auto& [line, message] : cases) EXPECT_EQ(refusal(line), message);
  EXPECT_NE(refusal("x: f = " + std::string(100000, '(') + "s; g = 1").find("fewer parentheses"), std::string::npos);
}

TEST(Definition, ParametersOfHeadersHaveNoNamesOfArgumentsEither) {
  EXPECT_NO_THROW(check_parameter_names("x", "tau, shift"));
  try {
    check_parameter_names("x", "tau, argmax");
    FAIL() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "x: parameter: expected a name of letters that nothing else has, got argmax");
  }
}

TEST(HeaderText, ComputesAnExponentialOnceForFAndG) {
  const std::string header = header_of(parse_definition("mine: f = sign(s)*exp(abs(s)); g = exp(abs(s))"));
  const std::size_t first = header.find("lane::exp(");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(header.find("lane::exp(", first + 1), std::string::npos) << header;
  EXPECT_NE(header.find("struct DefinedMine {"), std::string::npos);
  EXPECT_EQ(struct_name("my_own_map"), "MyOwnMap");
}

}  // namespace
}  // namespace cogwheel
