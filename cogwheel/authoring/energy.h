// The energy of a definition: the exponent whose running maximum keeps exponentials finite.
#pragma once
#include <optional>

#include "cogwheel/authoring/expression.h"

namespace cogwheel {

// How an expression grows: |x| is at most exp(growth) times something that is no exponential. The number 0 where x has
// none. Of a sum it is the maximum of those of its terms.
ExpressionPointer growth(const ExpressionPointer& expression);

// x·exp(−shift), with the shift taken into the exponents, where `shift` is a variable.
ExpressionPointer shifted(const ExpressionPointer& expression);

// N = factor·G + constant, neither of which has G. None where n is not of this form, which no shift can rescale.
struct LinearInMass {
  ExpressionPointer factor, constant;
};
std::optional<LinearInMass> linear_in_mass(const ExpressionPointer& n);

}  // namespace cogwheel
