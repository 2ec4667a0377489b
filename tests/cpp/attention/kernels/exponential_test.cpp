#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "engines_under_test.h"

namespace cogwheel {
namespace {

class Exponential : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

TEST_P(Exponential, FloatIsWithinTwoUlp) {
  std::vector<float> x;
  for (float value = -87.33f; value < 88.7f; value += 0.00037f) x.push_back(value);
  for (int exponent = -40; exponent < 0; ++exponent) x.push_back(std::ldexp(1.3f, exponent));
  while (x.size() % 16 != 0) x.push_back(0);
  std::vector<float> y(x.size());
  GetParam()->exp_float(x.data(), x.size(), y.data());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    const float near = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
    worst = std::max(worst, std::abs(y[i] - exact) / ulp);
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(Exponential, FloatKeepsTheLimits) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{-infinity, -1e4f, -104, 0, -0.0f, 88.72283f, 88.73f, 1e4f, infinity, nan, 1, -1, 0, 0, 0, 0};
  std::vector<float> y(x.size());
  GetParam()->exp_float(x.data(), x.size(), y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], 1);
  EXPECT_NEAR(y[5] / std::exp(88.72283f), 1, 1e-6);
  EXPECT_EQ(y[6], infinity);
  EXPECT_EQ(y[7], infinity);
  EXPECT_EQ(y[8], infinity);
  EXPECT_TRUE(std::isnan(y[9]));
}

TEST_P(Exponential, OfNonpositiveNumbersIsWithinThreeUlpNearZeroAndFewBeyond) {
  std::vector<float> x;
  for (float value = -87.33f; value <= 0; value += 0.00037f) x.push_back(value);
  for (int exponent = -140; exponent < 0; ++exponent) x.push_back(-std::ldexp(1.3f, exponent));
  while (x.size() % 16 != 0) x.push_back(0);
  std::vector<float> y(x.size());
  GetParam()->exp_float_nonpositive(x.data(), x.size(), y.data());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    const float near = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
    worst = std::max(worst, std::abs(y[i] - exact) / ulp / (3 + std::abs(x[i]) / 4.0));
  }
  EXPECT_LE(worst, 1);
}

TEST_P(Exponential, OfNonpositiveNumbersKeepsTheLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{-infinity, -1e30f, -1e9f, -104, -87.34f, -0.0f, 0};
  x.resize(16);
  std::vector<float> y(16);
  GetParam()->exp_float_nonpositive(x.data(), x.size(), y.data());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(y[i], 0) << x[i];
  for (std::size_t i = 5; i < 16; ++i) EXPECT_EQ(y[i], 1) << x[i];
}

// Those whose bits a sum would carry into the exponent.
TEST_P(Exponential, NanStaysWhateverItsPayload) {
  std::vector<float> x;
  for (const std::uint32_t payload : {0x400000u, 0x400001u, 0x7fffffu, 0x4000ffu, 0x4001ffu})
    for (const std::uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(sign | 0x7f800000u | payload));
  x.resize(16, x.front());
  std::vector<float> y(x.size());
  GetParam()->exp_float(x.data(), x.size(), y.data());
  for (const float each : y) EXPECT_TRUE(std::isnan(each)) << each;
  GetParam()->exp_float_nonpositive(x.data(), x.size(), y.data());
  for (const float each : y) EXPECT_TRUE(std::isnan(each)) << each;
}

TEST_P(Exponential, DoubleAgreesWithTheLibraryAndKeepsTheLimits) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> x{-infinity, -1e4, infinity, nan, 0, 1, -1, 700, -700, 0.3, -0.3, 12.5, -12.5, 1e-9, 800, 2};
  std::vector<double> y(x.size());
  GetParam()->exp_double(x.data(), x.size(), y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], infinity);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[14], infinity);
  for (std::size_t i : {4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 15u})
    EXPECT_NEAR(y[i] / std::exp(x[i]), 1, 1e-15) << x[i];
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Exponential, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
