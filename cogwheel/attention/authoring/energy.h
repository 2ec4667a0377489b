// The energy of a definition: the exponent whose row maximum is subtracted, to keep exponentials finite.
#pragma once
#include <optional>

#include "cogwheel/attention/authoring/expression.h"

namespace cogwheel::authoring {

// How an expression x grows: |x| is at most exp(growth) times a factor without exponentials. The number 0 where x has
// no exponential. The growth of a sum is the maximum of those of its terms.
ExpressionPointer growth(const ExpressionPointer& expression);

// x·exp(−shift), with the variable `shift` subtracted in the exponents. `bound` is an expression that the shift is
// never below: an exponential of it needs no upper bound (lane::exp_nonpositive), which others do.
ExpressionPointer shifted(const ExpressionPointer& expression, const ExpressionPointer& bound);

// N = factor·G + constant, where neither contains G. Empty where n is not linear in G and so cannot be rescaled.
struct LinearInMass {
  ExpressionPointer factor, constant;
};
std::optional<LinearInMass> linear_in_mass(const ExpressionPointer& n);

}  // namespace cogwheel::authoring
