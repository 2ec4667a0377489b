// Formulas as users write them: numbers, names, + − * / ^, comparisons within where(…), and the functions of lane.h.
//
// Parsed by hand into a tree, so that nothing but a formula ever reaches the compiler, and so that a mistake is
// reported at its column in the user's text before any compiler runs.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::authoring {

struct Expression;
using ExpressionPointer = std::shared_ptr<const Expression>;

// A number (no name), a variable (no arguments), or a function of arguments. Operators are functions with the operator
// as name: + - * / ^ < > <= >= ==; "neg" is −x. The exponent of ^ is a number without fraction. What is recorded from a
// header (traced_lane.h) has the other functions of lane.h too (exp_nonpositive, copysign, times_sign, sigmoid with
// odds), and its nodes may be arguments of several.
struct Expression {
  std::string name;
  double value = 0;
  std::vector<ExpressionPointer> arguments = {};
  int depth = 0;  // of nested functions

  bool is_number() const { return name.empty(); }
  bool is_number(double number) const { return is_number() && value == number; }
};

ExpressionPointer number(double value);
ExpressionPointer variable(std::string name);
// With trivial terms simplified: x·1, x + 0, −(−x).
ExpressionPointer apply(std::string name, std::vector<ExpressionPointer> arguments);

// `what` names the formula in messages, `variables` are the names that it may use. Throws UsageError: one line, then
// the formula, or the part of a long one around the mistake, and a mark below its column.
ExpressionPointer parse_expression(std::string_view text, std::string_view what,
                                   std::span<const std::string> variables);

// As a person would write it, with as few parentheses as possible.
std::string to_text(const Expression& expression);

bool is_same(const Expression& a, const Expression& b);
bool uses(const Expression& expression, std::string_view variable);

// The value of one operation of an expression, at those of its arguments.
long double value_of_operation(std::string_view name, std::span<const long double> arguments);
inline constexpr std::size_t max_arguments = 3;

// The plain formula in long double: the reference for the compiled one.
long double evaluate(const Expression& expression,
                     const std::function<long double(std::string_view variable)>& value_of);

// The same with every step rounded to double: the effect of rounding alone.
long double evaluate_in_double(const Expression& expression,
                               const std::function<long double(std::string_view variable)>& value_of);

// The functions that a formula may use, for messages and documentation: "exp(x)", "max(a, b)", ….
std::vector<std::string> function_signatures();

// Whether the formulas of a definition could use a parameter of that name: up to 40 letters, digits and underscores,
// beginning with a letter, and not a function.
bool is_free_name(std::string_view name);

}  // namespace cogwheel::authoring
