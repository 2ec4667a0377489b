// The functions of lane.h in SIMD lanes: errors in units of the last place, limits, and duals over lanes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "engines_under_test.h"

namespace cogwheel {
namespace {

template <class T>
struct Bounded {
  const char* name;
  typename LaneFunctionsUnderTest<T>::Function LaneFunctionsUnderTest<T>::*function;
  long double (*exact)(long double);
  double from, to, ulp;
  bool near_one;          // the error counts against 1 where the result is smaller
  int smallest_exponent;  // powers of two from here to 0 are among the arguments; 0: none
};

template <class T>
const std::vector<Bounded<T>>& bounds() {
  using F = LaneFunctionsUnderTest<T>;
  constexpr int tiny = sizeof(T) == 4 ? -120 : -1000;
  static const std::vector<Bounded<T>> all{
      {"log", &F::log, std::log, 1e-6, 300, 2, false, tiny},
      {"log of what is large", &F::log, std::log, 1e3, 1e36, 2, false, 0},
      {"log1p", &F::log1p, std::log1p, -0.9999, 300, 3, false, tiny},
      {"sqrt", &F::sqrt, std::sqrt, 0, 300, 0.5, false, tiny},
      {"sin", &F::sin, std::sin, -30, 30, 3, true, tiny},
      {"cos", &F::cos, std::cos, -30, 30, 3, true, tiny},
      {"sin of what is large", &F::sin, std::sin, -39000, 39000, 3, true, 0},
      {"cos of what is large", &F::cos, std::cos, -39000, 39000, 3, true, 0},
      {"sigmoid", &F::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -80, 40, 4, false, tiny},
      {"softplus", &F::softplus, [](long double x) { return std::log1p(std::exp(x)); }, -80, 80, 4, false, tiny},
  };
  return all;
}

class LaneFunctions : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }

  template <class T>
  const LaneFunctionsUnderTest<T>& functions() const {
    if constexpr (sizeof(T) == 4)
      return GetParam()->lane_float;
    else
      return GetParam()->lane_double;
  }

  template <class T>
  std::vector<T> of(typename LaneFunctionsUnderTest<T>::Function function, std::vector<T> x) const {
    const std::size_t count = x.size();
    while (x.size() % 16 != 0) x.push_back(T(1));
    std::vector<T> y(x.size());
    function(x.data(), x.size(), y.data());
    y.resize(count);
    return y;
  }

  template <class T>
  void expect_bounds() {
    for (const Bounded<T>& bounded : bounds<T>()) {
      std::vector<T> x;
      for (int i = 0; i <= 60000; ++i)
        x.push_back(static_cast<T>(bounded.from + (bounded.to - bounded.from) * i / 60000.0));
      for (int exponent = bounded.smallest_exponent; exponent < 0; ++exponent)
        for (double mantissa : {1.0, 1.3}) x.push_back(static_cast<T>(std::ldexp(mantissa, exponent)));
      const auto y = of<T>(functions<T>().*bounded.function, x);
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const long double truth = bounded.exact(static_cast<long double>(x[i]));
        const T size = bounded.near_one ? T(1) : static_cast<T>(std::abs(truth));
        const long double ulp =
            static_cast<long double>(std::nextafter(size, std::numeric_limits<T>::infinity())) - size;
        worst = std::max(worst, static_cast<double>(std::abs(y[i] - truth) / ulp));
      }
      EXPECT_LE(worst, bounded.ulp) << bounded.name;
      RecordProperty(bounded.name, std::to_string(worst));
    }
  }

  template <class T>
  void expect_limits() {
    const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const auto& f = functions<T>();
    const std::vector<T> x{nan, infinity, -infinity, T(0), T(-1), T(-2), std::numeric_limits<T>::max()};
    const auto expect = [&](const char* name, typename LaneFunctionsUnderTest<T>::Function function,
                            const std::vector<T>& expected) {
      const auto y = of<T>(function, x);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (std::isnan(expected[i]))
          EXPECT_TRUE(std::isnan(y[i])) << name << " of " << x[i] << " is " << y[i];
        else if (std::isinf(expected[i]) || expected[i] == 0)
          EXPECT_EQ(y[i], expected[i]) << name << " of " << x[i];
        else
          EXPECT_NEAR(y[i] / expected[i], 1, 1e-6) << name << " of " << x[i];
    };
    const T largest = std::numeric_limits<T>::max(), log_of_largest = std::log(largest);
    expect("log", f.log, {nan, infinity, nan, -infinity, nan, nan, log_of_largest});
    expect("log1p", f.log1p, {nan, infinity, nan, 0, -infinity, nan, log_of_largest});
    expect("sqrt", f.sqrt, {nan, infinity, nan, 0, nan, nan, std::sqrt(largest)});
    expect("sin", f.sin, {nan, nan, nan, 0, std::sin(T(-1)), std::sin(T(-2)), nan});
    expect("cos", f.cos, {nan, nan, nan, 1, std::cos(T(-1)), std::cos(T(-2)), nan});
    expect("sigmoid", f.sigmoid, {nan, 1, 0, T(0.5), T(1 / (1 + std::exp(1.0L))), T(1 / (1 + std::exp(2.0L))), 1});
    expect("softplus", f.softplus,
           {nan, infinity, 0, std::log(T(2)), std::log1p(std::exp(T(-1))), std::log1p(std::exp(T(-2))), largest});
    expect("max(x, 1)", f.maximum_with_one, {nan, infinity, 1, 1, 1, 1, largest});
    expect("sign", f.sign, {nan, 1, -1, 0, -1, -1, 1});
  }

  // Against the same formula, differentiated by hand.
  template <class T>
  void expect_derivatives(double tolerance) {
    std::vector<T> x;
    for (int i = 0; i < 64; ++i) x.push_back(static_cast<T>(-3 + 6 * (i + 0.4) / 64));
    std::vector<T> value(x.size()), derivative(x.size()), second(x.size());
    functions<T>().formula(x.data(), x.size(), value.data(), derivative.data(), second.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      // y = exp(u)/w − softplus, u = x tanh x, w = 1 + x²
      const double s = x[i], t = std::tanh(s), dt = 1 - t * t, du = t + s * dt, ddu = 2 * dt - 2 * s * t * dt;
      const double w = 1 + s * s, e = std::exp(s * t) / w, gain = du - 2 * s / w;
      const double gain_derivative = ddu - 2 / w + 4 * s * s / (w * w), a = 1 / (1 + std::exp(-s));
      EXPECT_NEAR(value[i], e - std::log1p(std::exp(s)), tolerance * (1 + e)) << s;
      EXPECT_NEAR(derivative[i], e * gain - a, tolerance * (1 + 4 * e)) << s;
      EXPECT_NEAR(second[i], e * (gain * gain + gain_derivative) - a * (1 - a), tolerance * (1 + 8 * e)) << s;
    }
  }
};

TEST_P(LaneFunctions, AreWithinTheirBounds) {
  expect_bounds<float>();
  expect_bounds<double>();
}

TEST_P(LaneFunctions, KeepTheLimits) {
  expect_limits<float>();
  expect_limits<double>();
}

TEST_P(LaneFunctions, HaveBothDerivativesThroughDuals) {
  expect_derivatives<float>(1e-6);
  expect_derivatives<double>(1e-14);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, LaneFunctions, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
