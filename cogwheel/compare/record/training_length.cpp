#include "cogwheel/compare/record/training_length.h"

#include <algorithm>

namespace cogwheel::compare {

runs::TrainingOptions with_steps(runs::TrainingOptions training, std::int64_t steps) {
  training.steps = steps;
  training.warm_up = std::min<std::int64_t>(100, steps / 10);
  training.evaluate_every = std::max<std::int64_t>(1, (steps + 9) / 10);
  training.report_every = std::clamp<std::int64_t>(steps / 50, 1, 10);
  training.checkpoint_every = std::max<std::int64_t>(50, (steps + 3) / 4);
  return training;
}

runs::TrainingOptions with_rate(runs::TrainingOptions training, double rate) {
  training.final_learning_rate = rate * training.final_learning_rate / training.learning_rate;
  training.learning_rate = rate;
  return training;
}

}  // namespace cogwheel::compare
