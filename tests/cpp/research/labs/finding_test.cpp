#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

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

// A page of one finding.
Finding decided(Finding finding, std::vector<double> values) {
  std::vector<Finding> page{of_draws(std::move(finding), std::move(values))};
  decide_findings(page);
  return page.front();
}

TEST(Finding, OfSeveralDrawsTellsByTheTestOfItsRelation) {
  // Mean 1, standard error 0.01; t of 95 % and 3 degrees of freedom: 3.18, of 90 %: 2.35.
  const std::vector<double> draws{0.98, 0.98, 1.02, 1.02};
  const double error = 0.04 / std::sqrt(3.0) / 2;
  const auto verdict = [&](Finding::Relation relation, double expected, double tolerance) {
    const Finding found = decided({"", printed, relation, expected, tolerance}, draws);
    EXPECT_EQ(found.agrees().has_value(), found.verdict() != Verdict::cannot_tell);
    return *found.verdict();
  };
  EXPECT_EQ(verdict(near, 1, 2.4 * error), Verdict::agrees);
  EXPECT_EQ(verdict(near, 1, 2.3 * error), Verdict::cannot_tell);
  EXPECT_EQ(verdict(near, 1 + 6 * error, 2.7 * error), Verdict::contradicts);
  EXPECT_EQ(verdict(near, 1 - 6 * error, 2.7 * error), Verdict::contradicts);
  EXPECT_EQ(verdict(near, 1 - 6 * error, 2.9 * error), Verdict::cannot_tell);
  EXPECT_EQ(verdict(at_most, 1 + 3.2 * error, 0), Verdict::agrees);
  EXPECT_EQ(verdict(at_most, 1 + 3.1 * error, 0), Verdict::cannot_tell);
  EXPECT_EQ(verdict(at_most, 1 - 3.2 * error, 0), Verdict::contradicts);
  EXPECT_EQ(verdict(above, 1 - 3.2 * error, 0), Verdict::agrees);
  EXPECT_EQ(verdict(above, 1 - 3.1 * error, 0), Verdict::cannot_tell);
  EXPECT_EQ(verdict(above, 1 + 3.2 * error, 0), Verdict::contradicts);
}

TEST(Finding, OfDrawsHasMeanIntervalAndP) {
  const std::vector<double> draws{1, 2, 3, 6};  // mean 3, standard error √(14/3)/2; t of 95 % and 3 degrees: 3.1824
  const Finding found = decided({"", direction, above, 0}, draws);
  EXPECT_DOUBLE_EQ(found.ours, 3);
  EXPECT_NEAR(found.tested->interval.value(), 3.1824463 * 1.0801234, 1e-6);
  EXPECT_NEAR(found.tested->p_adjusted.value(), 0.0691369, 1e-6);  // of t = 2.7775
  EXPECT_EQ(found.verdict(), Verdict::cannot_tell);
  EXPECT_EQ(found.ours_text(), "3 ± 3.437");
  EXPECT_EQ(found.verdict_word(), "cannot tell");
  EXPECT_TRUE(found.evidence_text().starts_with("p 0.069; 4 draws show a difference of ")) << found.evidence_text();
  EXPECT_NEAR(decided({"", follows, near, 3, 2}, draws).tested->p_adjusted.value(), 0.0805809,
              1e-6);  // of t = 2/1.0801
  const Finding shown_alone = decided({"", nobody, shown}, draws);
  EXPECT_NEAR(shown_alone.tested->interval.value(), 3.1824463 * 1.0801234, 1e-6);
  EXPECT_FALSE(shown_alone.tested->p_adjusted || shown_alone.verdict());
  const std::vector<double> same{2, 2};
  EXPECT_FALSE(decided({"", direction, above, 0}, same).tested);
  EXPECT_EQ(decided({"", direction, above, 0}, same).verdict_word(), "yes");
  EXPECT_EQ(decided({"", direction, above, 0}, same).evidence_text(), "");
  // What scatters less than numbers near 1 can tell apart is one number.
  EXPECT_FALSE(decided({"", follows, near, 1, 0.1}, {1e-17, 3e-17}).tested);
  EXPECT_EQ(decided({"", follows, near, 1, 0.1}, {1e-17, 3e-17}).verdict_word(), "no");
  EXPECT_EQ(decided({"", direction, above, 0}, {1, std::nan("")}).agrees(), false);
}

// One p that would do alone does not among ten; and of pages on which nothing is true and nothing is false, one in
// twenty says something.
TEST(Finding, IsTestedTogetherWithThoseOfItsPage) {
  std::vector<Finding> page{of_draws({"", direction, above, 0}, {1.0, 1.1, 1.4})};
  decide_findings(page);
  EXPECT_EQ(page.front().verdict(), Verdict::agrees);
  const double alone = page.front().tested->p_adjusted.value();
  for (int i = 0; i < 9; ++i) page.push_back(of_draws({"", direction, above, 0}, {-1, 0.1, 1}));
  decide_findings(page);
  EXPECT_NEAR(page.front().tested->p_adjusted.value(), 10 * alone, 1e-12);
  EXPECT_EQ(page.front().verdict(), Verdict::cannot_tell);

  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  constexpr int pages = 2000;
  int wrong = 0;
  for (int each = 0; each < pages; ++each) {
    std::vector<Finding> findings;
    for (int i = 0; i < 6; ++i)
      findings.push_back(of_draws({"", direction, i % 2 == 0 ? above : at_most, 1},
                                  {1 + normal(random), 1 + normal(random), 1 + normal(random)}));
    decide_findings(findings);
    wrong += std::ranges::any_of(findings, [](const Finding& found) { return found.agrees().has_value(); });
  }
  EXPECT_LE(wrong, 0.069 * pages);
  EXPECT_GE(wrong, 0.02 * pages);
}

}  // namespace
}  // namespace cogwheel::labs
