// Whether a map's derivatives match its functions, and its values are numbers.
#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "cogwheel/attention/mechanisms/scalar_map.h"

namespace cogwheel::authoring {

// Contains the scores at which the derivatives of both f and g were confirmed; 0 and 0 if there were none.
struct CheckedRange {
  double lowest = 0, highest = 0;
};

// Throws UsageError with the first score at which f or g is not a number, among those of an ordinary size, or at which
// a derivative is not that of finite differences, up to ±max_score: expected, got. Scores at which a function jumps or
// has a kink, is not finite, or moves too fast for differences to settle, are left out.
CheckedRange check_derivatives(std::string_view name, const ScalarMap& map, std::span<const double> theta,
                               double max_score = 1e4);

enum class Agreement { same, other, unknown };

// A claimed derivative of a function compared with its finite differences at a place: `expected` is their value, where
// the two disagree.
struct DerivativeComparison {
  Agreement agreement;
  double expected = 0;
};
DerivativeComparison compare_derivative(const std::function<double(double)>& function,
                                        const std::function<double(double)>& derivative, double at);

// Whether the function jumps or has a kink at that place, where finite differences define no derivative.
bool is_kink(const std::function<double(double)>& function, double at);

}  // namespace cogwheel::authoring
