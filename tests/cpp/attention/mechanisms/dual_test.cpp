// Dual numbers against closed forms, of first and second order, and at kinks.
#include "cogwheel/attention/mechanisms/derivatives/dual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cogwheel {
namespace {

// A function of lane.h with its derivatives, written by hand.
struct Closed {
  const char* name;
  Dual<Dual<double>> (*function)(Dual<Dual<double>>);
  double (*value)(double), (*first)(double), (*second)(double);
  double from, to;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

const Closed closed_forms[] = {
    {"exp", [](auto x) { return lane::exp(x); }, [](double x) { return std::exp(x); },
     [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }, -3, 3},
    {"log", [](auto x) { return lane::log(x); }, [](double x) { return std::log(x); }, [](double x) { return 1 / x; },
     [](double x) { return -1 / (x * x); }, 0.1, 5},
    {"log1p", [](auto x) { return lane::log1p(x); }, [](double x) { return std::log1p(x); },
     [](double x) { return 1 / (1 + x); }, [](double x) { return -1 / ((1 + x) * (1 + x)); }, -0.8, 5},
    {"sqrt", [](auto x) { return lane::sqrt(x); }, [](double x) { return std::sqrt(x); },
     [](double x) { return 0.5 / std::sqrt(x); }, [](double x) { return -0.25 / (x * std::sqrt(x)); }, 0.1, 5},
    {"tanh", [](auto x) { return lane::tanh(x); }, [](double x) { return std::tanh(x); },
     [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); },
     [](double x) { return -2 * std::tanh(x) / (std::cosh(x) * std::cosh(x)); }, -3, 3},
    {"sin", [](auto x) { return lane::sin(x); }, [](double x) { return std::sin(x); },
     [](double x) { return std::cos(x); }, [](double x) { return -std::sin(x); }, -7, 7},
    {"cos", [](auto x) { return lane::cos(x); }, [](double x) { return std::cos(x); },
     [](double x) { return -std::sin(x); }, [](double x) { return -std::cos(x); }, -7, 7},
    {"sigmoid", [](auto x) { return lane::sigmoid(x); }, [](double x) { return logistic(x); },
     [](double x) { return logistic(x) * logistic(-x); },
     [](double x) { return logistic(x) * logistic(-x) * (logistic(-x) - logistic(x)); }, -5, 5},
    {"softplus", [](auto x) { return lane::softplus(x); }, [](double x) { return std::log1p(std::exp(x)); },
     [](double x) { return logistic(x); }, [](double x) { return logistic(x) * logistic(-x); }, -5, 5},
    {"abs below 0", [](auto x) { return lane::abs(x * x * x); }, [](double x) { return -x * x * x; },
     [](double x) { return -3 * x * x; }, [](double x) { return -6 * x; }, -3, -0.1},
    {"copysign", [](auto x) { return lane::copysign(x * x, x); }, [](double x) { return x * std::abs(x); },
     [](double x) { return 2 * std::abs(x); }, [](double x) { return x < 0 ? -2.0 : 2.0; }, -3, 3},
    {"copysign of what is negative", [](auto x) { return lane::copysign(-x * x, x); },
     [](double x) { return x * std::abs(x); }, [](double x) { return 2 * std::abs(x); },
     [](double x) { return x < 0 ? -2.0 : 2.0; }, -3, 3},
    {"max", [](auto x) { return lane::max(x * x, x); }, [](double x) { return std::max(x * x, x); },
     [](double x) { return x < 0 || x > 1 ? 2 * x : 1; }, [](double x) { return x < 0 || x > 1 ? 2.0 : 0.0; }, -2, 2.9},
    {"min", [](auto x) { return lane::min(x * x, x); }, [](double x) { return std::min(x * x, x); },
     [](double x) { return x < 0 || x > 1 ? 1 : 2 * x; }, [](double x) { return x < 0 || x > 1 ? 0.0 : 2.0; }, -2, 2.9},
    {"sign", [](auto x) { return lane::sign(x) * x; }, [](double x) { return std::abs(x); },
     [](double x) { return x < 0 ? -1.0 : 1.0; }, [](double) { return 0.0; }, -3, 3},
    {"power 5", [](auto x) { return lane::power<5>(x); }, [](double x) { return std::pow(x, 5); },
     [](double x) { return 5 * std::pow(x, 4); }, [](double x) { return 20 * std::pow(x, 3); }, -2, 2},
    {"power -2", [](auto x) { return lane::power<-2>(x); }, [](double x) { return std::pow(x, -2); },
     [](double x) { return -2 * std::pow(x, -3); }, [](double x) { return 6 * std::pow(x, -4); }, 0.2, 2},
    {"power 0", [](auto x) { return lane::power<0>(x); }, [](double) { return 1.0; }, [](double) { return 0.0; },
     [](double) { return 0.0; }, -2, 2},
    {"cube of square", [](auto x) { return lane::cube(lane::square(x)); }, [](double x) { return std::pow(x, 6); },
     [](double x) { return 6 * std::pow(x, 5); }, [](double x) { return 30 * std::pow(x, 4); }, -2, 2},
    {"quotient", [](auto x) { return x / (decltype(x)(1) + x * x); }, [](double x) { return x / (1 + x * x); },
     [](double x) { return (1 - x * x) / std::pow(1 + x * x, 2); },
     [](double x) { return 2 * x * (x * x - 3) / std::pow(1 + x * x, 3); }, -3, 3},
};

class ClosedForm : public ::testing::TestWithParam<Closed> {};

TEST_P(ClosedForm, HasTheValueAndBothDerivatives) {
  const Closed& closed = GetParam();
  using Inner = Dual<double>;
  for (int i = 0; i < 37; ++i) {
    const double x = closed.from + (closed.to - closed.from) * (i + 0.37) / 37;
    const Dual<Inner> y = closed.function(Dual<Inner>::variable(Inner::variable(x, 0), 0));
    const auto near = [](double expected) { return 1e-13 * (1 + std::abs(expected)); };
    EXPECT_NEAR(y.value.value, closed.value(x), near(closed.value(x))) << x;
    EXPECT_NEAR(y.value.derivative[0], closed.first(x), near(closed.first(x))) << x;
    EXPECT_NEAR(y.derivative[0].value, closed.first(x), near(closed.first(x))) << x;
    EXPECT_NEAR(y.derivative[0].derivative[0], closed.second(x), near(closed.second(x))) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabulary, ClosedForm, ::testing::ValuesIn(closed_forms), [](const auto& closed) {
  std::string name = closed.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

using DualNumber = Dual<double>;

double derivative_at(DualNumber (*function)(DualNumber), double x) {
  return function(DualNumber::variable(x, 0)).derivative[0];
}

TEST(Dual, TakesTheDerivativeOfTheBranchAtAKink) {
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::abs(x); }, 0.0), 0);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::abs(x); }, -0.0), 0);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::max(x, DualNumber(0)); }, 0.0), 0);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::max(DualNumber(0), x); }, 0.0),
            1);  // the second of two equal ones
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::min(x, DualNumber(0)); }, 0.0), 0);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::sign(x); }, 2.0), 0);
  EXPECT_EQ(
      derivative_at([](DualNumber x) { return lane::select(x < DualNumber(0), DualNumber(2) * x, DualNumber(3) * x); },
                    0.0),
      3);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::copysign(DualNumber(1) + x, x); }, 0.0), 1);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::copysign(DualNumber(1) + x, x); }, -0.0), -1);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::sqrt(x); }, 0.0), std::numeric_limits<double>::infinity());
}

TEST(Dual, KeepsDirectionsApart) {
  using D3 = Dual<double, 3>;
  const D3 a = D3::variable(2, 0), b = D3::variable(3, 1), c = D3::variable(0.5, 2);
  const D3 y = a * b / c - lane::exp(c) + D3(7);
  EXPECT_DOUBLE_EQ(y.value, 12 - std::exp(0.5) + 7);
  EXPECT_DOUBLE_EQ(y.derivative[0], 6);
  EXPECT_DOUBLE_EQ(y.derivative[1], 4);
  EXPECT_DOUBLE_EQ(y.derivative[2], -24 - std::exp(0.5));
}

TEST(Dual, SigmoidMovesWithItsOddsAndStaysFiniteWhereExpOverflows) {
  using D2 = Dual<double, 2>;
  const D2 y = lane::sigmoid(D2::variable(0.3, 0), D2::variable(4, 1));
  const double e = std::exp(-0.3), a = 1 / (1 + 4 * e);
  EXPECT_NEAR(y.value, a, 1e-15);
  EXPECT_NEAR(y.derivative[0], a * a * 4 * e, 1e-15);
  EXPECT_NEAR(y.derivative[1], -a * a * e, 1e-15);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::sigmoid(x); }, -1e4), 0);
  EXPECT_EQ(derivative_at([](DualNumber x) { return lane::softplus(x); }, 1e4), 1);
  EXPECT_EQ(lane::softplus(DualNumber(1e4)).value, 1e4);
}

TEST(Dual, KeepsNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (auto* function : {+[](DualNumber x) { return lane::max(x, DualNumber(0)); },
                         +[](DualNumber x) { return lane::max(DualNumber(0), x); },
                         +[](DualNumber x) { return lane::min(x, DualNumber(0)); },
                         +[](DualNumber x) { return lane::min(DualNumber(0), x); },
                         +[](DualNumber x) { return lane::sign(x); }, +[](DualNumber x) { return lane::softplus(x); }})
    EXPECT_TRUE(std::isnan(function(DualNumber(nan)).value));
}

TEST(Dual, ValuesAreThoseOfThePlainNumbersBitForBit) {
  const auto formula = [](auto x) {
    using V = decltype(x);
    return lane::exp(lane::tanh(x) * x - V(2)) / (V(1) + lane::square(x)) + lane::log(lane::abs(x) + V(1));
  };
  for (float x : {-3.7f, -0.2f, 0.1f, 1.9f}) {
    EXPECT_EQ(formula(Dual<float>::variable(x, 0)).value, formula(x));
    EXPECT_EQ(formula(Dual<Dual<float>>(Dual<float>(x))).value.value, formula(x));
  }
}

}  // namespace
}  // namespace cogwheel
