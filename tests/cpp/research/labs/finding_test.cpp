#include <gtest/gtest.h>

#include <limits>

#include "cogwheel/research/labs/lab.h"

namespace cogwheel::labs {
namespace {

using enum Finding::Relation;
using enum Finding::Whose;

TEST(Finding, AgreesWithinItsTolerance) {
  EXPECT_EQ((Finding{"", printed, near, 0.138, 0.01, 0.147}.agrees()), true);
  EXPECT_EQ((Finding{"", printed, near, 0.138, 0.01, 0.149}.agrees()), false);
  EXPECT_EQ((Finding{"", printed, near, 8192, 0, 8192}.agrees()), true);
  EXPECT_EQ((Finding{"", printed, at_most, 0.05, 0, 0.05}.agrees()), true);
  EXPECT_EQ((Finding{"", printed, at_most, 0.05, 0, 0.06}.agrees()), false);
  EXPECT_EQ((Finding{"", printed, above, 0, 0, 0}.agrees()), false);
  EXPECT_EQ((Finding{"", printed, above, 0, 0, 1e-300}.agrees()), true);
  EXPECT_EQ((Finding{"", printed, shown, 0, 0, 1}.agrees()), std::nullopt);
}

TEST(Finding, WhatIsNoNumberAgreesWithNothing) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto relation : {near, at_most, above})
    EXPECT_EQ((Finding{"", printed, relation, 0, 1, nan}.agrees()), false);
  EXPECT_EQ((Finding{"", printed, near, 0, 1, nan}.ours_text()), "nan");
}

TEST(Finding, IsReadable) {
  EXPECT_EQ((Finding{"", printed, near, 0.138, 0.01, 0.14159}.expected_text()), "0.138 ± 0.01");
  EXPECT_EQ((Finding{"", printed, near, 15000, 0, 15000}.expected_text()), "15,000");
  EXPECT_EQ((Finding{"", printed, at_most, 0.05, 0, 0}.expected_text()), "at most 0.05");
  EXPECT_EQ((Finding{"", printed, above, 0, 0, 0}.expected_text()), "above 0");
  EXPECT_EQ(number_for_readers(-0.50341), "−0.5034");
  EXPECT_EQ(number_for_readers(1.23456e-13), "1.235e-13");
  EXPECT_EQ(number_for_readers(-1234), "−1,234");
  EXPECT_EQ(number_for_readers(1034567.8), "1,034,568");
}

TEST(Finding, SaysWhoExpectsIt) {
  EXPECT_EQ((Finding{"", printed, near, 1, 0, 1}.whose_text()), "the lecture's number");
  EXPECT_EQ((Finding{"", direction, above, 0, 0, 1}.whose_text()), "the lecture's direction");
  EXPECT_EQ((Finding{"", ours, at_most, 1, 0, 1}.whose_text()), "a bound of ours");
  EXPECT_EQ((Finding{"", printed, shown, 1, 0, 1}.whose_text()), "–");
}

}  // namespace
}  // namespace cogwheel::labs
