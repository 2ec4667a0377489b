#include "cogwheel/core/error.h"

#include <gtest/gtest.h>

namespace cogwheel {
namespace {

TEST(Error, HasOneFormOfMessage) {
  EXPECT_EQ(expected_got("attention: key head_dim", "64 (as query)", "80"),
            "attention: key head_dim: expected 64 (as query), got 80");
  EXPECT_EQ(expected_got("--baseline", "softmax", ""), "--baseline: expected softmax, got nothing");
  EXPECT_EQ(expected_got("--attention", "softmax", " so\nft\t\x1b"), "--attention: expected softmax, got  so ft ?");
}

TEST(Error, MessagesKeepToOneLine) {
  EXPECT_EQ(one_line("a tensor\nof another shape\x1b[31m\r\n"), "a tensor of another shape?[31m");
  EXPECT_EQ(one_line("Größe 3 × 4"), "Größe 3 × 4");
  EXPECT_EQ(one_line("\n"), "");
}

TEST(Error, WrongUsageExitsWithTwoAndRefusalsWithOne) {
  try {
    throw UsageError("unknown");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
  }
  EXPECT_EQ(Error("unreadable").exit_code(), 1);
}

}  // namespace
}  // namespace cogwheel
