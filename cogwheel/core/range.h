// What a number may be, said once: the check, its message and the help of an option follow.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cogwheel {

template <class Number>  // std::int64_t, std::uint64_t or double
struct Range {
  Number least, most;
  bool least_excluded = false, most_excluded = false;

  bool holds(Number value) const {
    return (least_excluded ? value > least : value >= least) && (most_excluded ? value < most : value <= most);
  }
  // "0 to 1000", "0 to below 1".
  std::string text() const;
};

// Throws UsageError: "<what>: expected at least 0, got -5".
template <class Number>
void expect_within(std::string_view what, Number value, const Range<Number>& range);

// The number that the whole of a text is. Throws UsageError where it is none or outside, also where it is beyond 64
// bits.
template <class Number>
Number parse_number(std::string_view what, std::string_view text, const Range<Number>& range);

// The shortest text that gives the number back: "0.1", "1e+30".
template <class Number>
std::string number_text(Number value);

}  // namespace cogwheel
