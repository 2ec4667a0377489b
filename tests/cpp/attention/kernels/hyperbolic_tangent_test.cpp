#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "engines_under_test.h"

namespace cogwheel {
namespace {

class HyperbolicTangent : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

// The largest error in units of the last place of T, against `exact`, which is better than T.
template <class T, class Exact>
double worst_ulp(const std::vector<T>& x, const std::vector<T>& y, Exact exact) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double truth = exact(static_cast<long double>(x[i]));
    const T near = static_cast<T>(std::abs(truth));
    const long double ulp = static_cast<long double>(std::nextafter(near, std::numeric_limits<T>::infinity())) - near;
    worst = std::max(worst, static_cast<double>(std::abs(y[i] - truth) / ulp));
  }
  return worst;
}

template <class T>
std::vector<T> arguments(int smallest_exponent) {
  std::vector<T> x;
  for (double value = -11; value < 11; value += 0.000041) x.push_back(static_cast<T>(value));
  for (int exponent = smallest_exponent; exponent < 0; ++exponent)
    for (double mantissa : {1.0, 1.3, -1.7}) x.push_back(static_cast<T>(std::ldexp(mantissa, exponent)));
  while (x.size() % 16 != 0) x.push_back(0);
  return x;
}

TEST_P(HyperbolicTangent, FloatIsWithinThreeUlpAlsoNearZero) {
  const auto x = arguments<float>(-120);
  std::vector<float> y(x.size());
  GetParam()->tanh_float(x.data(), x.size(), y.data());
  const double worst = worst_ulp(x, y, [](long double value) { return std::tanh(value); });
  EXPECT_LE(worst, 3.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(HyperbolicTangent, DoubleIsWithinFourUlpAlsoNearZero) {
  const auto x = arguments<double>(-900);
  std::vector<double> y(x.size());
  GetParam()->tanh_double(x.data(), x.size(), y.data());
  const double worst = worst_ulp(x, y, [](long double value) { return std::tanh(value); });
  EXPECT_LE(worst, 4.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

template <class T>
void expect_limits(void (*tanh)(const T*, std::size_t, T*)) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> x{-infinity, infinity, nan, 0, -T(0), 20, -20, T(1e30), T(-1e30), 0, 0, 0, 0, 0, 0, 0};
  std::vector<T> y(x.size());
  tanh(x.data(), x.size(), y.data());
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[1], 1);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 0);
  EXPECT_TRUE(std::signbit(y[4]));
  EXPECT_EQ(y[5], 1);
  EXPECT_EQ(y[6], -1);
  EXPECT_EQ(y[7], 1);
  EXPECT_EQ(y[8], -1);
}

TEST_P(HyperbolicTangent, KeepsTheLimits) {
  expect_limits(GetParam()->tanh_float);
  expect_limits(GetParam()->tanh_double);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, HyperbolicTangent, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
