#include "cogwheel/compare/statistics/claim_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace cogwheel::compare {
namespace {

using Relation = TestedClaim::Relation;

constexpr int pages_drawn = 2000;
// Of 2,000 draws, what an error of 5 % stays below but in one of 10,000 cases.
constexpr double most_errors = 0.05 + 3.8 * 0.0049, least_seen = 0.8 - 3.8 * 0.009;

// A rate that was observed, for docs/results/claim-statistics.md: --gtest_output=json:FILE has it.
void record(const char* what, int seeds, int count, int of) {
  testing::Test::RecordProperty(std::string(what) + "_of_" + std::to_string(seeds) + "_seeds",
                                std::to_string(static_cast<double>(count) / of));
}

class Planted {
 public:
  std::vector<double> values(int seeds, double mean, double deviation = 1) {
    std::normal_distribution<double> normal(mean, deviation);
    std::vector<double> drawn(static_cast<std::size_t>(seeds));
    for (double& each : drawn) each = normal(random_);
    return drawn;
  }

 private:
  std::mt19937_64 random_{7};
};

TestedClaim claim_of(Relation relation, std::vector<double> values, double bound = 0) {
  return {.relation = relation, .bound = bound, .values = std::move(values)};
}

// A page of four claims of each kind, of which none is true and none is false.
TEST(Claims, OfNoDifferenceAreDecidedInOnePageOfTwenty) {
  for (const int seeds : {3, 5, 10}) {
    Planted planted;
    int wrong = 0;
    for (int draw = 0; draw < pages_drawn; ++draw) {
      const std::vector<TestedClaim> page{
          claim_of(Relation::below, planted.values(seeds, 0)), claim_of(Relation::above, planted.values(seeds, 0)),
          claim_of(Relation::below, planted.values(seeds, 2), 2),
          TestedClaim{
              .relation = Relation::crosses, .values = planted.values(seeds, 0), .later = planted.values(seeds, 0)}};
      const auto results = decide_claims(page);
      wrong += std::any_of(results.begin(), results.end(),
                           [](const ClaimResult& result) { return result.verdict != Verdict::cannot_tell; });
    }
    record("errors", seeds, wrong, pages_drawn);
    EXPECT_LE(wrong, most_errors * pages_drawn) << seeds;
    EXPECT_GE(wrong, 0.02 * pages_drawn) << seeds;  // nor is it all caution
  }
}

// The difference is named by one page, and planted in another of as many seeds.
TEST(Claims, ADifferenceThatAPageNamesIsSeen) {
  for (const int seeds : {3, 5, 10}) {
    Planted planted;
    int seen = 0, named = 0;
    while (named < pages_drawn) {
      const auto before = decide_claims(std::vector{claim_of(Relation::below, planted.values(seeds, 0, 0.3))});
      if (!before[0].visible) continue;
      ++named;
      const auto after =
          decide_claims(std::vector{claim_of(Relation::below, planted.values(seeds, -*before[0].visible, 0.3))});
      seen += after[0].verdict == Verdict::agrees;
    }
    record("seen", seeds, seen, pages_drawn);
    EXPECT_GE(seen, least_seen * pages_drawn) << seeds;
    EXPECT_LE(seen, 0.9 * pages_drawn) << seeds;
  }
}

TEST(Claims, AGapOfTheMarginIsNotCalledEqual) {
  for (const int seeds : {3, 5, 10})
    for (const double gap : {-0.5, 0.5}) {
      Planted planted;
      int equal = 0, other = 0;
      for (int draw = 0; draw < pages_drawn; ++draw) {
        equal +=
            decide_claims(std::vector{claim_of(Relation::equal, planted.values(seeds, gap, 0.2), 0.5)})[0].verdict ==
            Verdict::agrees;
        other += decide_claims(std::vector{claim_of(Relation::equal, planted.values(seeds, gap / 2, 0.2), 0.5)})[0]
                     .verdict == Verdict::contradicts;
      }
      record(gap < 0 ? "equal_below" : "equal_above", seeds, equal, pages_drawn);
      record(gap < 0 ? "contradicted_below" : "contradicted_above", seeds, other, pages_drawn);
      EXPECT_LE(equal, most_errors * pages_drawn) << seeds << " " << gap;
      EXPECT_GE(equal, 0.02 * pages_drawn) << seeds << " " << gap;
      EXPECT_LE(other, most_errors * pages_drawn) << seeds << " " << gap;
    }
}

TEST(Claims, AMarginThatAPageNamesIsConfirmed) {
  for (const int seeds : {4, 10}) {
    Planted planted;
    int seen = 0, named = 0;
    while (named < pages_drawn / 4) {
      const auto before = decide_claims(std::vector{claim_of(Relation::equal, planted.values(seeds, 0), 0.01)});
      if (!before[0].visible) continue;
      ++named;
      seen += decide_claims(std::vector{claim_of(Relation::equal, planted.values(seeds, 0), *before[0].visible)})[0]
                  .verdict == Verdict::agrees;
    }
    record("confirmed", seeds, seen, pages_drawn / 4);
    EXPECT_GE(seen, (0.8 - 3.8 * 0.018) * pages_drawn / 4) << seeds;
  }
}

TEST(Claims, TrueOnesAgreeAndFalseOnesAreContradicted) {
  Planted planted;
  const auto below = planted.values(5, -3), above = planted.values(5, 3);
  const auto verdict = [](const TestedClaim& claim) { return decide_claims(std::vector{claim})[0].verdict; };
  EXPECT_EQ(verdict(claim_of(Relation::below, below)), Verdict::agrees);
  EXPECT_EQ(verdict(claim_of(Relation::below, above)), Verdict::contradicts);
  EXPECT_EQ(verdict(claim_of(Relation::above, above)), Verdict::agrees);
  EXPECT_EQ(verdict(claim_of(Relation::above, below)), Verdict::contradicts);
  EXPECT_EQ(verdict(claim_of(Relation::equal, below, 9)), Verdict::agrees);
  EXPECT_EQ(verdict(claim_of(Relation::equal, below, 0.5)), Verdict::contradicts);
  EXPECT_EQ(verdict({.relation = Relation::crosses, .values = below, .later = above}), Verdict::agrees);
  EXPECT_EQ(verdict({.relation = Relation::crosses, .rises = false, .values = below, .later = above}),
            Verdict::contradicts);
  EXPECT_EQ(verdict({.relation = Relation::crosses, .rises = false, .values = above, .later = below}), Verdict::agrees);
  // One side alone is no crossing, and the other shows that it is none.
  EXPECT_EQ(verdict({.relation = Relation::crosses, .values = below, .later = below}), Verdict::contradicts);
}

TEST(Claims, IntervalsAndVerdictsAreOneTest) {
  Planted planted;
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<TestedClaim> page;
    for (const double mean : {0.0, 0.8, -1.5}) page.push_back(claim_of(Relation::above, planted.values(4, mean), 0.1));
    page.push_back(claim_of(Relation::equal, planted.values(4, 0.2, 0.5), 1));
    const auto results = decide_claims(page);
    for (std::size_t index = 0; index < 3; ++index) {
      const bool excludes = std::abs(results[index].mean - 0.1) > *results[index].interval;
      EXPECT_EQ(excludes, results[index].verdict != Verdict::cannot_tell);
      EXPECT_EQ(results[index].visible.has_value(), results[index].verdict == Verdict::cannot_tell);
    }
    const bool within = std::abs(results[3].mean) + *results[3].interval < 1;
    EXPECT_EQ(within, results[3].verdict == Verdict::agrees);
  }
}

TEST(Claims, WithoutSpreadNothingIsTold) {
  for (const std::vector<double>& values : {std::vector<double>{}, {1.0}, {1.0, 1.0, 1.0}}) {
    const ClaimResult result = decide_claims(std::vector{claim_of(Relation::above, values)})[0];
    EXPECT_EQ(result.verdict, Verdict::cannot_tell);
    EXPECT_FALSE(result.interval || result.p_adjusted || result.visible);
    EXPECT_EQ(std::isnan(result.mean), values.empty());
  }
}

// Values of the noncentral t distribution: 80.0 % for d = 0.5 and 34 pairs at 5 %, and 80.2 % for d = 1 and 10 pairs
// (Cohen 1988 has 33 to 34 and 10).
TEST(Claims, PowerIsThatOfTheTTest) {
  EXPECT_NEAR(power_of_t_test(0.5, 34, 0.05), 0.808, 0.004);
  EXPECT_NEAR(power_of_t_test(1, 10, 0.05), 0.803, 0.004);
  EXPECT_NEAR(power_of_t_test(0, 5, 0.05), 0.05, 0.001);
  // So many seeds as a page asks for would have seen what it found.
  std::vector<double> values{0.1, 0.5, 0.2, -0.3, 0.6, 0.1};
  const ClaimResult result = decide_claims(std::vector{claim_of(Relation::above, values)})[0];
  ASSERT_EQ(result.verdict, Verdict::cannot_tell);
  double mean = 0.2, squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double distance = mean / std::sqrt(squares / 5);
  EXPECT_GE(power_of_t_test(distance, *result.seeds_needed, 0.05), wanted_power);
  EXPECT_LT(power_of_t_test(distance, *result.seeds_needed - 1, 0.05), wanted_power);
}

}  // namespace
}  // namespace cogwheel::compare
