// Whether a map's derivatives are those of its functions, and its values numbers.
#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "cogwheel/mechanisms/scalar_map.h"

namespace cogwheel {

// The scores at which both f and g were judged lie within; 0 and 0 where there were none.
struct JudgedRange {
  double lowest = 0, highest = 0;
};

// Throws UsageError with the first score at which f or g is not a number, among those of an ordinary size, or at which
// a derivative is not that of finite differences, up to ±most: expected, got. Scores at which a function jumps or has a
// kink, is not finite, or moves too fast for differences to settle, are left out.
JudgedRange check_derivatives(std::string_view name, const ScalarMap& map, std::span<const double> theta,
                              double most = 1e4);

enum class Agreement { same, other, unknown };

// Of what is said to be the derivative of a function with its differences at a place: `expected` is what they come to,
// where it is another.
struct Judgement {
  Agreement agreement;
  double expected = 0;
};
Judgement judge_derivative(const std::function<double(double)>& function,
                           const std::function<double(double)>& derivative, double at);

// Whether the function jumps or has a kink at that place, where no difference says what the derivative is.
bool is_kink(const std::function<double(double)>& function, double at);

}  // namespace cogwheel
