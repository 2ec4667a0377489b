#include "cogwheel/core/range.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

template <class Number>
[[noreturn]] void refuse(std::string_view what, const Range<Number>& range, bool below, std::string_view got) {
  const std::string at_least = (range.min_excluded ? "above " : "at least ") + number_text(range.min);
  const std::string max = number_text(range.max);
  throw UsageError(expected_got(what,
                                below                ? at_least
                                : range.max_excluded ? at_least + " and below " + max
                                                     : "at most " + max,
                                got));
}

}  // namespace

template <class Number>
std::string number_text(Number value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class Number>
std::string Range<Number>::text() const {
  return (min_excluded ? "above " : "") + number_text(min) + " to " + (max_excluded ? "below " : "") + number_text(max);
}

template <class Number>
void expect_within(std::string_view what, Number value, const Range<Number>& range) {
  if (range.holds(value)) return;
  if constexpr (std::is_floating_point_v<Number>)
    if (std::isnan(value)) throw UsageError(expected_got(what, "a number from " + range.text(), "nan"));
  refuse(what, range, value < range.min || (range.min_excluded && value == range.min), number_text(value));
}

template <class Number>
Number parse_number(std::string_view what, std::string_view text, const Range<Number>& range) {
  constexpr bool whole = std::is_integral_v<Number>;
  Number value{};
  const std::string_view digits = text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool negative = digits.starts_with('-');
  if (whole && problem == std::errc::result_out_of_range && end == digits.data() + digits.size())
    refuse(what, range, negative, text);
  if (problem != std::errc() || end != digits.data() + digits.size()) {
    // -1 is a number, though no unsigned one.
    if (std::is_unsigned_v<Number> && negative && digits.find_first_not_of("0123456789", 1) == std::string_view::npos)
      refuse(what, range, true, text);
    throw UsageError(expected_got(what, (whole ? "a whole number from " : "a number from ") + range.text(), text));
  }
  expect_within(what, value, range);
  return value;
}

template struct Range<std::int64_t>;
template struct Range<std::uint64_t>;
template struct Range<double>;
template void expect_within(std::string_view, std::int64_t, const Range<std::int64_t>&);
template void expect_within(std::string_view, std::uint64_t, const Range<std::uint64_t>&);
template void expect_within(std::string_view, double, const Range<double>&);
template std::int64_t parse_number(std::string_view, std::string_view, const Range<std::int64_t>&);
template std::uint64_t parse_number(std::string_view, std::string_view, const Range<std::uint64_t>&);
template double parse_number(std::string_view, std::string_view, const Range<double>&);
template std::string number_text(std::int64_t);
template std::string number_text(std::uint64_t);
template std::string number_text(double);

}  // namespace cogwheel
