#include "cogwheel/core/wording/nearest_names.h"

#include <gtest/gtest.h>

namespace cogwheel {
namespace {

const std::vector<std::string> known{"softmax", "cog", "differential", "symmetric", "softmax_off_by_one"};

TEST(NearestNames, FindsWhatWasMistyped) {
  EXPECT_EQ(nearest_names("sofmax", known).front(), "softmax");
  EXPECT_EQ(nearest_names("cgo", known), std::vector<std::string>{"cog"});
  EXPECT_EQ(nearest_names("diferentail", known), std::vector<std::string>{"differential"});
}

TEST(NearestNames, FindsNamesThatContainTheWord) {
  EXPECT_EQ(nearest_names("off_by_one", known), std::vector<std::string>{"softmax_off_by_one"});
}

TEST(NearestNames, LeavesOutWhatIsNoSlip) { EXPECT_TRUE(nearest_names("mamba", known).empty()); }

// Short names are not near to nothing.
TEST(ExpectedNames, ProposesNothingForAnEmptyName) {
  EXPECT_TRUE(nearest_names("", {"s4", "cog"}).empty());
  EXPECT_EQ(expected_names("", {"s4", "cog"}), "one of s4, cog");
  EXPECT_EQ(expected_names("", std::vector<std::string>(78, "s4")), "one of 78 names");
}

TEST(ExpectedNames, NamesAllWhereNoneIsNear) {
  EXPECT_EQ(expected_names("mamba", {"softmax", "cog"}), "one of softmax, cog");
  EXPECT_EQ(expected_names("cogg", known), "cog (the nearest of 5 names)");
}

}  // namespace
}  // namespace cogwheel
