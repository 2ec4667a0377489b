#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "cogwheel/research/labs/finding.h"

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
  EXPECT_EQ((Finding{"", printed, near, 1, 0, 1}.whose_text("the lecture's")), "the lecture's number");
  EXPECT_EQ((Finding{"", direction, above, 0, 0, 1}.whose_text("the lecture's")), "the lecture's direction");
  EXPECT_EQ((Finding{"", ours, at_most, 1, 0, 1}.whose_text("the lecture's")), "a bound of ours");
  EXPECT_EQ((Finding{"", printed, shown, 1, 0, 1}.whose_text("the lecture's")), "–");
}

TEST(Finding, OfSeveralDrawsTellsByItsInterval) {
  const auto verdict = [](Finding::Relation relation, double expected, double tolerance, double ours, double interval) {
    Finding finding{"", printed, relation, expected, tolerance, ours};
    finding.interval = interval;
    EXPECT_EQ(finding.agrees().has_value(), finding.verdict() != Verdict::cannot_tell);
    return *finding.verdict();
  };
  EXPECT_EQ(verdict(near, 1, 0.1, 1.02, 0.05), Verdict::agrees);
  EXPECT_EQ(verdict(near, 1, 0.1, 1.02, 0.09), Verdict::cannot_tell);
  EXPECT_EQ(verdict(near, 1, 0.1, 0.7, 0.25), Verdict::cannot_tell);
  EXPECT_EQ(verdict(near, 1, 0.1, 0.7, 0.15), Verdict::contradicts);
  EXPECT_EQ(verdict(at_most, 1, 0, 0.9, 0.05), Verdict::agrees);
  EXPECT_EQ(verdict(at_most, 1, 0, 1.04, 0.05), Verdict::cannot_tell);
  EXPECT_EQ(verdict(at_most, 1, 0, 1.06, 0.05), Verdict::contradicts);
  EXPECT_EQ(verdict(above, 1, 0, 1.06, 0.05), Verdict::agrees);
  EXPECT_EQ(verdict(above, 1, 0, 1.04, 0.05), Verdict::cannot_tell);
  EXPECT_EQ(verdict(above, 1, 0, 0.9, 0.05), Verdict::contradicts);
}

TEST(Finding, OfDrawsHasMeanIntervalAndP) {
  const std::array<double, 4> draws{1, 2, 3, 6};  // mean 3, standard error √(14/3)/2; t of 95 % and 3 degrees: 3.1824
  const Finding found = of_draws({"", direction, above, 0}, draws);
  EXPECT_DOUBLE_EQ(found.ours, 3);
  EXPECT_NEAR(found.interval.value(), 3.1824463 * 1.0801234, 1e-6);
  EXPECT_NEAR(found.p.value(), 0.0691369, 1e-6);  // of t = 2.7775
  EXPECT_EQ(found.verdict(), Verdict::cannot_tell);
  EXPECT_EQ(found.ours_text(), "3 ± 3.437");
  EXPECT_NEAR(of_draws({"", follows, near, 3, 2}, draws).p.value(), 0.0805809, 1e-6);  // of t = 2/1.0801, one-sided
  const std::array<double, 2> same{2, 2};
  EXPECT_FALSE(of_draws({"", direction, above, 0}, same).interval);
  EXPECT_EQ(of_draws({"", direction, above, 0}, same).agrees(), true);
}

}  // namespace
}  // namespace cogwheel::labs
