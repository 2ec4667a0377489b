// How many multiplications and additions training takes, by formulas, for budgets and estimates of time.
#pragma once
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

// Of one token, forward and backward, each multiplication and each addition counted. What is computed a second time to
// save memory is not, so that the number is the same for every program.
struct TrainingFlops {
  double products = 0;   // with weights: 6 for each entry of a matrix (Kaplan et al. 2020, section 2.1)
  double attention = 0;  // scores and sums of values: 12 · width · seen keys (Chowdhery et al. 2022, appendix B)

  double all() const { return products + attention; }
};

// In a window of the model's context, whose queries see half of the keys, (n + 1) / 2, on average; a difference of two
// maps sums values twice. Of layers with a state only the matrices are counted.
TrainingFlops training_flops(const LanguageModelOptions& options);

}  // namespace cogwheel::tasks::language
