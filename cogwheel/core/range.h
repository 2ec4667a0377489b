// The allowed range of a number, stated once: the check, its message and the help of an option follow from it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cogwheel {

template <class Number>  // std::int64_t, std::uint64_t or double
struct Range {
  Number min, max;
  bool min_excluded = false, max_excluded = false;

  bool holds(Number value) const {
    return (min_excluded ? value > min : value >= min) && (max_excluded ? value < max : value <= max);
  }
  // "0 to 1000", "0 to below 1".
  std::string text() const;
};

// Throws UsageError: "<what>: expected at least 0, got -5".
template <class Number>
void expect_within(std::string_view what, Number value, const Range<Number>& range);

// Parses the whole text as a number. Throws UsageError where it is not a number or lies outside the range, also where
// it does not fit into 64 bits.
template <class Number>
Number parse_number(std::string_view what, std::string_view text, const Range<Number>& range);

// The shortest text that parses back to the same number: "0.1", "1e+30".
template <class Number>
std::string number_text(Number value);

}  // namespace cogwheel
