#include "cogwheel/core/lab_parameters.h"

#include <gtest/gtest.h>

#include "cogwheel/core/error.h"

namespace cogwheel::labs {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"draws", {3}, {1, 100}, ""},
           {"sizes", {2, 4}, {2, 9000}, "", whole, true},
           {"loads", {0.5}, {0, 1, true, true}, "", real, true}}};
}

std::string refusal(const std::string& name, const std::string& text) {
  LabParameters all = parameters();
  try {
    all.set(name, text, "--set");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LabParameters, TakesNumbersAndLists) {
  LabParameters all = parameters();
  all.set("draws", " 7 ", "--set");
  all.set("sizes", "[8, 16,32]", "--set");
  all.set("loads", "0.25", "--set");
  EXPECT_EQ(all.whole("draws"), 7);
  EXPECT_EQ(all.wholes("sizes"), (std::vector<std::int64_t>{8, 16, 32}));
  EXPECT_EQ(all.numbers("loads"), std::vector<double>{0.25});
  EXPECT_EQ(all.all()[1].text(), "[8, 16, 32]");
  EXPECT_EQ(all.all()[0].text(), "7");
  EXPECT_TRUE(all.same(all, {"draws", "sizes"}));
  EXPECT_FALSE(all.same(parameters(), {"draws"}));
}

TEST(LabParameters, RefusesInOneLine) {
  EXPECT_EQ(refusal("draw", "1"), "--set: parameter: expected draws (the nearest of 3 names), got draw");
  EXPECT_EQ(refusal("draws", "0"), "--set: draws: expected at least 1, got 0");
  EXPECT_EQ(refusal("draws", "1,2"), "--set: draws: expected a whole number from 1 to 100, got 1,2");
  EXPECT_EQ(refusal("draws", "[1]"), "--set: draws: expected one number, got [1]");
  EXPECT_EQ(refusal("sizes", "[]"), "--set: sizes: expected a whole number from 2 to 9000, got nothing");
  EXPECT_EQ(refusal("sizes", "4,9001"), "--set: sizes: expected at most 9000, got 9001");
  EXPECT_EQ(refusal("sizes", "4;5"), "--set: sizes: expected a whole number from 2 to 9000, got 4;5");
  EXPECT_NE(refusal("loads", "1").find("--set: loads: expected "), std::string::npos);
  EXPECT_NE(refusal("loads", "nan").find("--set: loads: expected a number from "), std::string::npos);
}

}  // namespace
}  // namespace cogwheel::labs
