// McNemar's test of two answers to the same questions, exact.
#pragma once
#include <cstdint>

namespace cogwheel::compare {

// Two-sided p-value of the test that two models are right equally often (McNemar 1947), where `only_first` questions
// were answered rightly by the first alone and `only_second` by the second alone: under the hypothesis, a fair coin
// decides which of them. From the binomial distribution itself, and so right for few questions too; 1 where none tells
// the models apart.
double mcnemar_p_value(std::int64_t only_first, std::int64_t only_second);

}  // namespace cogwheel::compare
