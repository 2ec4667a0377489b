#include "cogwheel/research/reproduce/reproduction.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"

namespace cogwheel::reproduce {
namespace {

std::string agreement(const labs::LabResult& result) {
  return reproduce::agreement(result, source_name("s2/hopfield", "x.toml"));
}

using labs::Finding;
using enum labs::Finding::Relation;
using enum labs::Finding::Whose;

TEST(Agreement, NamesWhatDoesNotAgree) {
  const Finding good{"a", printed, near, 1, 0, 1}, bad{"b", follows, near, 1, 0, 2},
      without{"c", nobody, shown, 0, 0, 2};
  EXPECT_EQ(agreement({"", {good, good, without}}), "Both numbers compared agree with the lecture.");
  EXPECT_EQ(agreement({"", {good, good, good}}), "All 3 numbers compared agree with the lecture.");
  EXPECT_EQ(agreement({"", {good}}), "The one number compared agrees with the lecture.");
  EXPECT_EQ(agreement({"", {good, bad}}), "1 of 2 numbers compared agree with the lecture. Not so: b.");
  EXPECT_EQ(agreement({"", {without}}), "With these parameters there is nothing to compare with the lecture.");
}

TEST(Agreement, NamesWhatCannotBeTold) {
  std::vector<Finding> open{labs::of_draws({"d", direction, above, 0}, {0, 2})};
  labs::decide_findings(open);
  EXPECT_EQ(agreement({"", {open.front(), {"a", printed, near, 1, 0, 1}}}),
            "1 of 2 numbers compared agree with the lecture. These draws cannot tell: d.");
}

TEST(SourceName, IsThatOfTheFolder) {
  EXPECT_EQ(source_name("s4/cost", "x").possessive, "the notes'");
  EXPECT_EQ(source_name("s1", "x").document, "S1");
  EXPECT_THROW(source_name("s9/cost", "x"), UsageError);
}

// A threshold of our own says nothing about the lecture.
TEST(Agreement, CountsBoundsOfOurOwnApart) {
  const Finding good{"a", printed, near, 1, 0, 1}, kept{"b", ours, at_most, 1, 0, 1},
      missed{"c", ours, at_most, 1, 0, 2};
  EXPECT_EQ(agreement({"", {good, kept}}),
            "The one number compared agrees with the lecture. The one bound of our own holds.");
  EXPECT_EQ(agreement({"", {good, kept, missed}}),
            "The one number compared agrees with the lecture. 1 of 2 bounds of our own hold. Not so: c.");
}

}  // namespace
}  // namespace cogwheel::reproduce
