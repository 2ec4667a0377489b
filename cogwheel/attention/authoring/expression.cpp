#include "cogwheel/attention/authoring/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cogwheel/attention/authoring/excerpt.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::authoring {
namespace {

using Number = long double;

struct Function {
  std::string_view name, signature;
  std::size_t arguments;
  Number (*value)(const Number* x);
};

constexpr std::array functions{
    Function{"exp", "exp(x)", 1, [](const Number* x) { return std::exp(x[0]); }},
    Function{"log", "log(x)", 1, [](const Number* x) { return std::log(x[0]); }},
    Function{"log1p", "log1p(x)", 1, [](const Number* x) { return std::log1p(x[0]); }},
    Function{"sqrt", "sqrt(x)", 1, [](const Number* x) { return std::sqrt(x[0]); }},
    Function{"tanh", "tanh(x)", 1, [](const Number* x) { return std::tanh(x[0]); }},
    Function{"sin", "sin(x)", 1, [](const Number* x) { return std::sin(x[0]); }},
    Function{"cos", "cos(x)", 1, [](const Number* x) { return std::cos(x[0]); }},
    Function{"abs", "abs(x)", 1, [](const Number* x) { return std::abs(x[0]); }},
    Function{"sign", "sign(x)", 1, [](const Number* x) { return x[0] > 0   ? 1
                                                                : x[0] < 0 ? Number{-1}
                                                                           : x[0]; }},
    Function{"square", "square(x)", 1, [](const Number* x) { return x[0] * x[0]; }},
    Function{"cube", "cube(x)", 1, [](const Number* x) { return x[0] * x[0] * x[0]; }},
    Function{"sigmoid", "sigmoid(x)", 1, [](const Number* x) { return 1 / (1 + std::exp(-x[0])); }},
    Function{"softplus", "softplus(x)", 1,
             [](const Number* x) { return std::max(x[0], Number{0}) + std::log1p(std::exp(-std::abs(x[0]))); }},
    Function{"max", "max(a, b)", 2, [](const Number* x) { return std::max(x[0], x[1]); }},
    Function{"min", "min(a, b)", 2, [](const Number* x) { return std::min(x[0], x[1]); }},
    Function{"where", "where(a > b, x, y)", 3, [](const Number* x) { return x[0] != 0 ? x[1] : x[2]; }},
};

// What formulas have no name for: recorded ones alone.
constexpr std::array recorded_functions{
    Function{"exp_nonpositive", "exp_nonpositive(x)", 1, [](const Number* x) { return std::exp(x[0]); }},
    Function{"copysign", "copysign(x, sign)", 2, [](const Number* x) { return std::copysign(x[0], x[1]); }},
    Function{"times_sign", "times_sign(x, s)", 2,
             [](const Number* x) { return x[1] == 0 ? Number{0} : std::copysign(x[0], x[1]); }},
    Function{"sigmoid", "sigmoid(x, odds)", 2, [](const Number* x) { return 1 / (1 + x[1] * std::exp(-x[0])); }},
};

const Function* find_function(std::string_view name) {
  const auto found = std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

const Function& function_of(std::string_view name, std::size_t arguments) {
  for (const Function& recorded : recorded_functions)
    if (recorded.name == name && recorded.arguments == arguments) return recorded;
  return *find_function(name);
}

bool is_comparison(std::string_view name) {
  return name == "<" || name == ">" || name == "<=" || name == ">=" || name == "==";
}

// Of operators: an argument of lower precedence than its place asks for needs parentheses.
int precedence(const Expression& expression) {
  const std::string& name = expression.name;
  if (expression.is_number()) return std::signbit(expression.value) ? 3 : 6;
  if (is_comparison(name)) return 1;
  if (name == "+" || name == "-") return 2;
  if (name == "*" || name == "/") return 3;
  if (name == "neg") return 4;
  if (name == "^") return 5;
  return 6;
}

std::string shortest_text(double value) {
  std::array<char, 32> text;
  const auto [end, problem] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Limits that no sensible formula reaches: code that reads a tree recurses into it, and clang stops at 256 brackets.
constexpr int max_depth = 200, max_operations = 1000;
constexpr std::size_t longest_name = 40;

class Parser {
 public:
  Parser(std::string_view text, std::string_view what, std::span<const std::string> variables)
      : text_(text), what_(what), variables_(variables) {}

  ExpressionPointer whole() {
    ExpressionPointer result = comparison();
    if (at_ < text_.size()) refuse(text_[at_] == ')' ? "no more )" : "an operator or the end", rest());
    if (is_comparison(result->name)) refuse("a number", "a comparison, which only where(a > b, x, y) takes", 0);
    return result;
  }

 private:
  // The lowest level: one comparison, or a sum.
  ExpressionPointer comparison() {
    ExpressionPointer left = sum();
    skip_space();
    for (const std::string_view symbol : {"<=", ">=", "==", "<", ">"}) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      at_ += symbol.size();
      return build(std::string(symbol), {left, sum()});
    }
    return left;
  }

  ExpressionPointer sum() {
    ExpressionPointer result = product();
    for (char symbol; (symbol = next()) == '+' || symbol == '-';) {
      ++at_;
      result = build(std::string(1, symbol), {result, product()});
    }
    return result;
  }

  ExpressionPointer product() {
    ExpressionPointer result = signed_power();
    for (char symbol; (symbol = next()) == '*' || symbol == '/';) {
      ++at_;
      if (symbol == '*' && at_ < text_.size() && text_[at_] == '*') refuse("^ for powers", "**", at_ - 1);
      result = build(std::string(1, symbol), {result, signed_power()});
    }
    return result;
  }

  ExpressionPointer signed_power() {
    if (++open_ > max_depth) refuse("fewer parentheses and signs", "more than " + std::to_string(max_depth));
    ExpressionPointer result;
    if (next() == '-') {
      ++at_;
      result = build("neg", {signed_power()});
    } else if (next() == '+') {
      ++at_;
      result = signed_power();
    } else {
      result = power();
    }
    --open_;
    return result;
  }

  ExpressionPointer power() {
    ExpressionPointer base = operand();
    while (next() == '^') {
      const std::size_t begin = ++at_;
      const bool negative = next() == '-';
      if (negative) ++at_;
      skip_space();
      if (at_ >= text_.size() || !is_digit(text_[at_])) refuse("a whole number as exponent", rest(), begin);
      const double exponent = literal();
      if (exponent != std::floor(exponent) || exponent > 64)
        refuse("a whole number up to 64 as exponent", shortest_text(exponent), begin);
      base = build("^", {base, number(negative ? -exponent : exponent)});
    }
    return base;
  }

  ExpressionPointer operand() {
    const char first = next();
    if (first == '(') {
      const std::size_t open = at_++;
      ExpressionPointer inner = comparison();
      if (is_comparison(inner->name)) refuse("a number", "a comparison, which only where(a > b, x, y) takes", open);
      close(open);
      return inner;
    }
    if (is_digit(first) || (first == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      return number(literal());
    }
    if (is_letter(first)) return named();
    refuse("a number, a name or (", rest());
  }

  double literal() {
    double value = 0;
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc()) refuse("a number", rest());
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  ExpressionPointer named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    if (next() == '(') return called(name, begin);
    if (std::find(variables_.begin(), variables_.end(), name) != variables_.end()) return variable(name);
    if (const Function* function = find_function(name)) refuse(std::string(function->signature), name, begin);
    std::vector<std::string> known(variables_.begin(), variables_.end());
    refuse(expected_names(name, known) + (name == "x" ? " (s is the score)" : ""), name, begin);
  }

  ExpressionPointer called(const std::string& name, std::size_t begin) {
    const Function* function = find_function(name);
    if (function == nullptr) {
      std::vector<std::string> known;
      for (const Function& each : functions) known.emplace_back(each.name);
      refuse(expected_names(name, known), name, begin);
    }
    const std::size_t open = at_++;
    std::vector<ExpressionPointer> arguments;
    if (next() != ')') {
      do {
        if (!arguments.empty()) ++at_;
        arguments.push_back(comparison());
      } while (next() == ',');
    }
    close(open);
    if (arguments.size() != function->arguments)
      refuse(std::string(function->signature), std::to_string(arguments.size()) + " arguments", begin);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool condition = name == "where" && i == 0;
      if (is_comparison(arguments[i]->name) != condition)
        refuse(std::string(function->signature), condition ? "no comparison" : "a comparison", begin);
    }
    return build(name, std::move(arguments));
  }

  ExpressionPointer build(std::string name, std::vector<ExpressionPointer> arguments) {
    ExpressionPointer result = apply(std::move(name), std::move(arguments));
    if (result->depth > max_depth) refuse("at most " + std::to_string(max_depth) + " nested operations", "more");
    if (++operations_ > max_operations) refuse("at most " + std::to_string(max_operations) + " operations", "more");
    return result;
  }

  void close(std::size_t open) {
    if (next() != ')') refuse("a ) for this (", at_ >= text_.size() ? "the end" : rest(), open);
    ++at_;
  }

  // The next character that is no space; 0 at the end.
  char next() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  std::string rest() const {
    if (at_ >= text_.size()) return "the end";
    // One word, or one character with the bytes that belong to it.
    std::size_t end = next_character(text_, at_);
    if (is_letter(text_[at_]) || is_digit(text_[at_]))
      while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    return std::string(text_.substr(at_, end - at_));
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& got) { refuse(expected, got, at_); }
  [[noreturn]] void refuse(const std::string& expected, const std::string& got, std::size_t at) {
    // A column counts characters, not bytes. For a long formula, the characters around the mistake are shown.
    constexpr std::size_t max_before = 60, max_shown = 100;
    std::vector<std::size_t> characters;
    for (std::size_t begin = 0; begin < std::min(at, text_.size()); begin = next_character(text_, begin))
      characters.push_back(begin);
    const std::size_t column = characters.size(), left_out = column > max_before ? column - max_before : 0;
    const std::string line =
        (left_out == 0 ? "" : "…") + excerpt(text_.substr(left_out == 0 ? 0 : characters[left_out]), max_shown);
    const std::size_t before = column - left_out + (left_out == 0 ? 0 : 1);
    throw UsageError(expected_got(what_, expected, excerpt(got)) + " (column " + std::to_string(column + 1) + ")\n  " +
                     line + "\n  " + std::string(before, ' ') + "^");
  }

  std::string_view text_, what_;
  std::span<const std::string> variables_;
  std::size_t at_ = 0;
  int open_ = 0, operations_ = 0;
};

using ValueOf = std::function<long double(std::string_view variable)>;

template <class Rounded>
Number evaluate_steps(const Expression& expression, const ValueOf& value_of, const Rounded& rounded) {
  if (expression.is_number()) return expression.value;
  if (expression.arguments.empty()) return rounded(value_of(expression.name));
  std::array<Number, max_arguments> x{};
  const std::size_t count = expression.arguments.size();
  for (std::size_t i = 0; i < count; ++i) x[i] = evaluate_steps(*expression.arguments[i], value_of, rounded);
  return rounded(value_of_operation(expression.name, {x.data(), count}));
}

}  // namespace

long double value_of_operation(std::string_view name, std::span<const long double> x) {
  if (name == "neg") return -x[0];
  if (name == "+") return x[0] + x[1];
  if (name == "-") return x[0] - x[1];
  if (name == "*") return x[0] * x[1];
  if (name == "/") return x[0] / x[1];
  if (name == "^") return std::pow(x[0], x[1]);
  if (name == "<") return x[0] < x[1];
  if (name == ">") return x[0] > x[1];
  if (name == "<=") return x[0] <= x[1];
  if (name == ">=") return x[0] >= x[1];
  if (name == "==") return x[0] == x[1];
  return function_of(name, x.size()).value(x.data());
}

ExpressionPointer number(double value) { return std::make_shared<Expression>(Expression{.name = {}, .value = value}); }

ExpressionPointer variable(std::string name) {
  return std::make_shared<Expression>(Expression{.name = std::move(name)});
}

ExpressionPointer apply(std::string name, std::vector<ExpressionPointer> arguments) {
  const auto is = [&](std::size_t i, double value) { return arguments[i]->is_number(value); };
  if (name == "neg") {
    if (arguments[0]->name == "neg") return arguments[0]->arguments[0];
    if (arguments[0]->is_number()) return number(-arguments[0]->value);
  }
  if (name == "*" && is(0, 1)) return arguments[1];
  if ((name == "*" || name == "/") && is(1, 1)) return arguments[0];
  if (name == "+" && is(0, 0)) return arguments[1];
  if ((name == "+" || name == "-") && is(1, 0)) return arguments[0];
  if (name == "-" && is(0, 0)) return apply("neg", {arguments[1]});
  if (name == "^" && is(1, 1)) return arguments[0];
  int depth = 0;
  for (const ExpressionPointer& argument : arguments) depth = std::max(depth, argument->depth);
  return std::make_shared<Expression>(
      Expression{.name = std::move(name), .value = 0, .arguments = std::move(arguments), .depth = depth + 1});
}

ExpressionPointer parse_expression(std::string_view text, std::string_view what,
                                   std::span<const std::string> variables) {
  return Parser(text, what, variables).whole();
}

std::string to_text(const Expression& expression) {
  if (expression.is_number()) return shortest_text(expression.value);
  if (expression.arguments.empty()) return expression.name;
  const int level = precedence(expression);
  const auto part = [&](std::size_t i, int min_precedence) {
    const Expression& argument = *expression.arguments[i];
    const std::string text = to_text(argument);
    return precedence(argument) < min_precedence ? std::string("(").append(text).append(")") : text;
  };
  if (level == 6) {
    std::string text = expression.name + "(";
    for (std::size_t i = 0; i < expression.arguments.size(); ++i) text += (i == 0 ? "" : ", ") + part(i, 0);
    return text + ")";
  }
  if (level == 5) return part(0, 6) + "^" + part(1, 0);
  if (level == 4) return std::string("-").append(part(0, 4));
  // The right side of − and / needs a higher precedence than the left; so does that of + and *, to keep the order.
  const std::string between = level == 3 ? expression.name : std::string(" ").append(expression.name).append(" ");
  return part(0, level) + between + part(1, level + 1);
}

bool is_same(const Expression& a, const Expression& b) {
  return a.name == b.name && a.value == b.value &&
         std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(),
                    [](const auto& x, const auto& y) { return is_same(*x, *y); });
}

bool uses(const Expression& expression, std::string_view name) {
  if (!expression.is_number() && expression.arguments.empty()) return expression.name == name;
  return std::any_of(expression.arguments.begin(), expression.arguments.end(),
                     [&](const auto& argument) { return uses(*argument, name); });
}

long double evaluate(const Expression& expression, const ValueOf& value_of) {
  return evaluate_steps(expression, value_of, [](Number x) { return x; });
}

long double evaluate_in_double(const Expression& expression, const ValueOf& value_of) {
  return evaluate_steps(expression, value_of, [](Number x) { return Number{static_cast<double>(x)}; });
}

std::vector<std::string> function_signatures() {
  std::vector<std::string> signatures;
  for (const Function& function : functions) signatures.emplace_back(function.signature);
  return signatures;
}

bool is_free_name(std::string_view name) {
  return !name.empty() && name.size() <= longest_name && is_letter(name.front()) && name.front() != '_' &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); }) &&
         find_function(name) == nullptr;
}

}  // namespace cogwheel::authoring
