// Definitions in one line: their meaning, their energy, and where each mistake is shown.
#include "cogwheel/attention/authoring/definition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/argument_names.h"
#include "cogwheel/attention/authoring/header_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
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
                                 "where(s <= tau, s, 0)", "s*tau/2", "1 - s + 2", "(s^2)^3", "s*(-tau)", "(-0)^2"}) {
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
  // None: no exponential, one that outgrows g, g = 0, an N that cannot be rescaled.
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
      {"x: f = exp(s)", "x: g: expected a formula (or g = 0 together with an n, where no sum is needed), got none"},
      {"x: g = exp(s)", "x: f: expected a formula, got none"},
      {"f = s", "definition: expected NAME: f = FORMULA; g = FORMULA, got f = s"},
      {"x: f = s; g = 1; f = 2", "x: expected each part once, got f twice"},
      {"x: f = s; g = 1; tau = s",
       "x: tau: expected a number, the parameter's initial value (formulas are f, g, n and energy), got s"},
      {"x: f = s; g = 1; window = 1",
       "x: parameter: expected a name of up to 40 letters, digits and _ that nothing else has, got window"},
      {"x: f = s; g = 0", "x: n: expected a formula without G where g is 0, got G"},
      {"x: f = log(s); g = 1",
       "x: f at s = -7.3: expected a number, got none (the logarithm or root of a negative number, or 0/0)"},
      {"x: f = s; g = exp(s); n = sqrt(G); energy = s",
       "x: n: expected a·G + b, which the energy can rescale, got sqrt(G)"},
      {"Mine: f = s; g = 1",
       "mechanism: expected a name of up to 40 lower-case letters, digits and _, beginning with a letter, got Mine"},
      {"x; int main(){}: f = s; g = 1",
       "mechanism: expected a name of up to 40 lower-case letters, digits and _, beginning with a letter, got x; int "
       "main(){}"}};
  for (const auto& [line, message] : cases) EXPECT_EQ(refusal(line), message);
  EXPECT_NE(refusal("x: f = " + std::string(100000, '(') + "s; g = 1").find("fewer parentheses"), std::string::npos);
}

// The lines of an error that show a long formula are short too.
TEST(Definition, DepthAndLengthAreRefused) {
  const auto repeated = [](std::string_view part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const std::pair<std::string, const char*> cases[] = {
      {repeated("s+", 40000) + "s", "at most 200 nested operations, got more (column 404)"},
      {repeated("(", 40000) + "s" + repeated(")", 40000),
       "fewer parentheses and signs, got more than 200 (column 201)"},
      {repeated("-", 40000) + "s", "fewer parentheses and signs, got more than 200 (column 201)"},
      {"s" + repeated("^2", 40000), "at most 200 nested operations, got more"},
      {repeated("max(s*s*s*s, ", 190) + "s" + repeated(")", 190) + "+" + repeated("max(s*s*s*s, ", 190) + "s" +
           repeated(")", 190),
       "at most 1000 operations, got more"},
      {repeated("a", 100000), "one of s, visible, got aaaa"}};
  for (const auto& [formula, message] : cases) {
    const std::string refused = refusal("x: f = " + formula + "; g = 1");
    EXPECT_NE(refused.find(message), std::string::npos) << refused;
    EXPECT_LT(refused.size(), 600u);
  }
  EXPECT_EQ(refusal("x: f = " + repeated("(", 100) + "s" + repeated(")", 100) + " + t; g = 1"),
            "x: f: expected s (the nearest of 2 names), got t (column 205)\n  …" + repeated(")", 57) + " + t\n  " +
                repeated(" ", 61) + "^");
  EXPECT_EQ(refusal("x: f = s; g = 1; " + repeated("a", 41) + " = 1"),
            "x: parameter: expected a name of up to 40 letters, digits and _ that nothing else has, got " +
                repeated("a", 41));
  std::string many = "x: f = s; g = 1";
  for (int i = 0; i < 17; ++i) many += "; a" + std::to_string(i) + " = 1";
  EXPECT_EQ(refusal(many), "x: parameters: expected at most 16, got 17");
  EXPECT_EQ(refusal(repeated("x", 50000) + ": f = s; g = 1").size(), 185u);
  EXPECT_EQ(refusal(" \n "), "definition: expected NAME: f = FORMULA; g = FORMULA, got nothing");
  EXPECT_NE(refusal("x: f = s; g = 1; tau = 0x10"), "");
}

// Any text is parsed, and its canonical text parses to the same, or it is refused in one line besides the formula.
TEST(Definition, AnyTextIsReadOrRefused) {
  const std::vector<std::string> pieces = {
      "s",    "tau", "visible", "G",      "1",      "0.5", "64", "1e-3",     "+",
      "-",    "*",   "/",       "^2",     "^-3",    "(",   ")",  "exp(",     "where(s > 1, ",
      "max(", ",",   "sign(s)", "abs(s)", "exp(s)", "<",   "==", ";",        ":",
      "=",    " ",   "π",       "\xff",   "#",      "\n",  "f",  "n = G + 1"};
  std::minstd_rand draw(7);
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string line = i % 4 == 0 ? "" : "x: g = exp(s); tau = 2; f = s";
    for (auto count = draw() % 8; count-- > 0;) line += pieces[draw() % pieces.size()];
    std::string refused, text;
    try {
      const MechanismDefinition definition = parse_definition(line);
      text = definition.text;
      EXPECT_EQ(parse_definition(text).text, text) << line;
      EXPECT_FALSE(header_of(definition).empty());
      ++read;
    } catch (const UsageError& error) {
      refused = error.what();
    }
    const auto lines = std::count(refused.begin(), refused.end(), '\n');
    EXPECT_TRUE(lines == 0 || lines == 2) << line << " → " << refused;
    EXPECT_EQ(refused.empty(), !text.empty()) << line;
  }
  EXPECT_GT(read, 100);
}

TEST(Definition, ParametersOfHeadersHaveNoNamesOfArgumentsEither) {
  EXPECT_NO_THROW(check_parameter_names("x", "tau, shift"));
  try {
    check_parameter_names("x", "tau, argmax");
    FAIL() << "nothing was refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "x: parameter: expected a name of up to 40 letters, digits and _ that nothing else has, got argmax");
  }
}

TEST(HeaderText, ComputesAnExponentialOnceForFAndG) {
  const std::string header = header_of(parse_definition("mine: f = sign(s)*exp(abs(s)); g = exp(abs(s))"));
  const std::size_t first = header.find("lane::exp");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(header.find("lane::exp", first + 1), std::string::npos) << header;
  EXPECT_NE(header.find("struct DefinedMine {"), std::string::npos);
  EXPECT_EQ(struct_name("my_own_map"), "MyOwnMap");
}

}  // namespace
}  // namespace cogwheel::authoring
