// A lane that records: an operation on it builds the expression of what is computed, so that a row map that runs on it
// once says what it computes on any number, for machines that this compiler makes no code for (row_map_trace.h).
//
// Operations are those of lane.h, one node each, and a value that is used twice is one node. What would change no bit
// is left out: x·1, operations on numbers alone, and products with the derivative of a constant.
#pragma once
#include <algorithm>
#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "cogwheel/attention/authoring/expression.h"

namespace cogwheel::authoring {

class Traced {
 public:
  struct Condition {
    ExpressionPointer at;
  };

  Traced() : Traced(0.0) {}
  explicit Traced(ExpressionPointer at) : at_(std::move(at)) {}
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  explicit Traced(Number x)
      : at_(std::make_shared<Expression>(Expression{.name = {}, .value = static_cast<double>(x)})) {}
  static Traced constant(double x) { return Traced(x); }
  static Traced variable(const char* name) { return Traced(std::make_shared<Expression>(Expression{.name = name})); }
  static Traced zero_derivative() {
    Traced zero;
    zero.is_zero_derivative_ = true;
    return zero;
  }

  const ExpressionPointer& expression() const { return at_; }

  static Traced exp(const Traced& x) { return step("exp", x); }
  static Traced exp_nonpositive(const Traced& x) { return step("exp_nonpositive", x); }
  static Traced log(const Traced& x) { return step("log", x); }
  static Traced log1p(const Traced& x) { return step("log1p", x); }
  static Traced sqrt(const Traced& x) { return step("sqrt", x); }
  static Traced tanh(const Traced& x) { return step("tanh", x); }
  static Traced sin(const Traced& x) { return step("sin", x); }
  static Traced cos(const Traced& x) { return step("cos", x); }
  static Traced abs(const Traced& x) { return step("abs", x); }
  static Traced sign(const Traced& x) { return step("sign", x); }
  static Traced softplus(const Traced& x) { return step("softplus", x); }
  static Traced sigmoid(const Traced& x, const Traced& odds) {
    return odds.is(1) ? step("sigmoid", x) : step("sigmoid", x, odds);
  }
  static Traced copysign(const Traced& magnitude, const Traced& sign) { return step("copysign", magnitude, sign); }
  static Traced times_sign(const Traced& magnitude, const Traced& s) { return step("times_sign", magnitude, s); }
  static Traced select(const Condition& condition, const Traced& yes, const Traced& no) {
    if (yes.at_ == no.at_ || (yes.is_zero_derivative_ && no.is_zero_derivative_)) return yes;
    return Traced(node("where", {condition.at, yes.at_, no.at_}));
  }

  friend Traced operator+(const Traced& a, const Traced& b) {
    if (a.is_zero_derivative_) return b;
    if (b.is_zero_derivative_) return a;
    if (a.is_number() && b.is_number()) return Traced(a.value() + b.value());
    return step("+", a, b);
  }
  friend Traced operator-(const Traced& a, const Traced& b) {
    if (b.is_zero_derivative_) return a;
    if (a.is_zero_derivative_) return -b;
    if (a.is_number() && b.is_number()) return Traced(a.value() - b.value());
    return step("-", a, b);
  }
  friend Traced operator-(const Traced& a) {
    if (a.is_zero_derivative_) return a;
    if (a.is_number()) return Traced(-a.value());
    if (a.at_->name == "neg") return Traced(a.at_->arguments[0]);
    return step("neg", a);
  }
  friend Traced operator*(const Traced& a, const Traced& b) {
    if (a.is_zero_derivative_ || b.is(1)) return a;
    if (b.is_zero_derivative_ || a.is(1)) return b;
    if (a.is_number() && b.is_number()) return Traced(a.value() * b.value());
    return step("*", a, b);
  }
  friend Traced operator/(const Traced& a, const Traced& b) {
    if (a.is_zero_derivative_ || b.is(1)) return a;
    if (a.is_number() && b.is_number()) return Traced(a.value() / b.value());
    return step("/", a, b);
  }
  friend Condition operator==(const Traced& a, const Traced& b) { return {node("==", {a.at_, b.at_})}; }
  friend Condition operator<(const Traced& a, const Traced& b) { return {node("<", {a.at_, b.at_})}; }
  friend Condition operator>(const Traced& a, const Traced& b) { return {node(">", {a.at_, b.at_})}; }
  friend Condition operator<=(const Traced& a, const Traced& b) { return {node("<=", {a.at_, b.at_})}; }
  friend Condition operator>=(const Traced& a, const Traced& b) { return {node(">=", {a.at_, b.at_})}; }

 private:
  bool is_number() const { return at_->is_number(); }
  bool is(double number) const { return at_->is_number(number); }
  double value() const { return at_->value; }

  static ExpressionPointer node(const char* name, std::vector<ExpressionPointer> arguments) {
    int depth = 0;
    for (const ExpressionPointer& argument : arguments) depth = std::max(depth, argument->depth);
    return std::make_shared<Expression>(
        Expression{.name = name, .value = 0, .arguments = std::move(arguments), .depth = depth + 1});
  }
  template <class... Arguments>
  static Traced step(const char* name, const Arguments&... arguments) {
    return Traced(node(name, {arguments.at_...}));
  }

  ExpressionPointer at_;
  bool is_zero_derivative_ = false;
};

}  // namespace cogwheel::authoring
