#include "cogwheel/attention/authoring/energy.h"

#include <string>
#include <utility>
#include <vector>

namespace cogwheel::authoring {

namespace {

// x = exp(exponent) · factor. Without an exponential, exponent is the number 0 and factor is x.
struct Exponential {
  ExpressionPointer exponent, factor;
};

// Finds exponentials in products, quotients, powers and sums of equal exponents.
Exponential split_exponential(const ExpressionPointer& expression) {
  const Exponential none{number(0), expression};
  const std::string& name = expression->name;
  const auto argument = [&](std::size_t i) { return expression->arguments[i]; };
  if (name == "exp") return {argument(0), number(1)};
  if (name == "neg") {
    const Exponential inner = split_exponential(argument(0));
    return {inner.exponent, apply("neg", {inner.factor})};
  }
  if (name == "^") {
    const Exponential inner = split_exponential(argument(0));
    if (inner.exponent->is_number(0)) return none;
    return {apply("*", {argument(1), inner.exponent}), apply("^", {inner.factor, argument(1)})};
  }
  if (name != "*" && name != "/" && name != "+" && name != "-") return none;
  const Exponential left = split_exponential(argument(0)), right = split_exponential(argument(1));
  if (name == "*") return {apply("+", {left.exponent, right.exponent}), apply("*", {left.factor, right.factor})};
  if (name == "/") return {apply("-", {left.exponent, right.exponent}), apply("/", {left.factor, right.factor})};
  if (!is_same(*left.exponent, *right.exponent)) return none;
  return {left.exponent, apply(name, {left.factor, right.factor})};
}

// Functions that commute with a positive factor: a(x)·c = a(x·c).
bool is_homogeneous(const std::string& name) {
  return name == "+" || name == "-" || name == "neg" || name == "abs" || name == "max" || name == "min" ||
         name == "where";
}

ExpressionPointer larger(const ExpressionPointer& a, const ExpressionPointer& b) {
  return is_same(*a, *b) ? a : apply("max", {a, b});
}

}  // namespace

ExpressionPointer growth(const ExpressionPointer& expression) {
  const Exponential split = split_exponential(expression);
  const std::string& name = split.factor->name;
  const auto of = [&](std::size_t i) { return growth(split.factor->arguments[i]); };
  ExpressionPointer inner = number(0);
  if (is_homogeneous(name)) {
    inner = of(split.factor->arguments.size() - 1);
    if (split.factor->arguments.size() > 1) inner = larger(of(split.factor->arguments.size() - 2), inner);
  } else if (name == "*") {
    inner = apply("+", {of(0), of(1)});
  } else if (name == "/") {
    inner = of(0);
  }
  return apply("+", {split.exponent, inner});
}

ExpressionPointer shifted(const ExpressionPointer& expression, const ExpressionPointer& bound) {
  if (expression->is_number(0)) return expression;
  const Exponential split = split_exponential(expression);
  const std::string& name = expression->name;
  if (split.exponent->is_number(0)) {
    std::vector<ExpressionPointer> arguments = expression->arguments;
    if (is_homogeneous(name)) {
      for (std::size_t i = name == "where" ? 1 : 0; i < arguments.size(); ++i)
        arguments[i] = shifted(arguments[i], bound);
      return apply(name, std::move(arguments));
    }
    // In a product, shift the factor that grows.
    if ((name == "*" || name == "/") && !growth(arguments[0])->is_number(0))
      return apply(name, {shifted(arguments[0], bound), arguments[1]});
    if (name == "*" && !growth(arguments[1])->is_number(0))
      return apply(name, {arguments[0], shifted(arguments[1], bound)});
  }
  const char* const exponential = is_same(*split.exponent, *bound) ? "exp_nonpositive" : "exp";
  return apply("*", {split.factor, apply(exponential, {apply("-", {split.exponent, variable("shift")})})});
}

std::optional<LinearInMass> linear_in_mass(const ExpressionPointer& n) {
  if (!uses(*n, "G")) return LinearInMass{number(0), n};
  if (n->name == "G") return LinearInMass{number(1), number(0)};
  if (n->name != "neg" && n->name != "+" && n->name != "-" && n->name != "*" && n->name != "/") return std::nullopt;
  const auto left = linear_in_mass(n->arguments[0]);
  if (!left) return std::nullopt;
  const auto both = [&](const ExpressionPointer& a, const ExpressionPointer& b) { return apply(n->name, {a, b}); };
  if (n->name == "neg") return LinearInMass{apply("neg", {left->factor}), apply("neg", {left->constant})};
  const auto right = linear_in_mass(n->arguments[1]);
  if (!right) return std::nullopt;
  if (n->name == "+" || n->name == "-")
    return LinearInMass{both(left->factor, right->factor), both(left->constant, right->constant)};
  const auto scaled = [](const ExpressionPointer& part, const ExpressionPointer& by, const std::string& name) {
    return part->is_number(0) ? part : apply(name, {part, by});
  };
  if (!uses(*n->arguments[1], "G"))
    return LinearInMass{scaled(left->factor, n->arguments[1], n->name),
                        scaled(left->constant, n->arguments[1], n->name)};
  if (n->name == "*" && !uses(*n->arguments[0], "G"))
    return LinearInMass{scaled(right->factor, n->arguments[0], "*"), scaled(right->constant, n->arguments[0], "*")};
  return std::nullopt;
}

}  // namespace cogwheel::authoring
