#include "cogwheel/core/range.h"

#include <gtest/gtest.h>

#include <limits>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

template <class Number>
std::string parsed(std::string_view text, const Range<Number>& range) {
  try {
    return number_text(parse_number("--n", text, range));
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Range, TakesWhatLiesInside) {
  constexpr Range<std::int64_t> whole{-2, 100};
  EXPECT_EQ(parsed("-2", whole), "-2");
  EXPECT_EQ(parsed("+100", whole), "100");
  constexpr Range<double> real{.min = 0, .max = 1, .max_excluded = true};
  EXPECT_EQ(parsed("1e-3", real), "0.001");
  EXPECT_EQ(parsed("0", real), "0");
  EXPECT_EQ(parsed("18446744073709551615", Range<std::uint64_t>{0, std::numeric_limits<std::uint64_t>::max()}),
            "18446744073709551615");
}

TEST(Range, RefusesTheRestInOneLine) {
  constexpr Range<std::int64_t> whole{1, 100};
  EXPECT_EQ(parsed("0", whole), "--n: expected at least 1, got 0");
  EXPECT_EQ(parsed("101", whole), "--n: expected at most 100, got 101");
  // Beyond 64 bits, where strtoll would saturate.
  EXPECT_EQ(parsed("18446744073709551616", whole), "--n: expected at most 100, got 18446744073709551616");
  EXPECT_EQ(parsed("-99999999999999999999", whole), "--n: expected at least 1, got -99999999999999999999");
  for (const char* text : {"many", "1.5", "1e3", "0x10", "5 ", " 5", "+-5"})
    EXPECT_EQ(parsed(text, whole), std::string("--n: expected a whole number from 1 to 100, got ") + text);
  EXPECT_EQ(parsed("", whole), "--n: expected a whole number from 1 to 100, got nothing");
  EXPECT_EQ(parsed("-1", Range<std::uint64_t>{0, 9}), "--n: expected at least 0, got -1");
  EXPECT_EQ(parsed("99999999999999999999", Range<std::uint64_t>{0, 9}),
            "--n: expected at most 9, got 99999999999999999999");
  constexpr Range<double> real{.min = 0, .max = 1, .max_excluded = true};
  EXPECT_EQ(parsed("1", real), "--n: expected at least 0 and below 1, got 1");
  constexpr Range<double> rate{.min = 0, .max = 9, .min_excluded = true};
  EXPECT_EQ(parsed("0", rate), "--n: expected above 0, got 0");
  EXPECT_EQ(parsed("x", rate), "--n: expected a number from above 0 to 9, got x");
  EXPECT_EQ(parsed("-inf", real), "--n: expected at least 0, got -inf");
  EXPECT_EQ(parsed("nan", real), "--n: expected a number from 0 to below 1, got nan");
  EXPECT_EQ(parsed("1e999", real), "--n: expected a number from 0 to below 1, got 1e999");
}

}  // namespace
}  // namespace cogwheel
