// Models of a few random weights in float64, and prompts for them.
#pragma once
#include <torch/types.h>

#include <string>

#include "cogwheel/interpret/prompts.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_form.h"

namespace cogwheel::interpret {

struct SmallModel {
  std::string form, mechanism;
  std::int64_t key_value_heads = 0;
};

inline tasks::language::LanguageModel make_small(const SmallModel& small) {
  tasks::language::LanguageModelOptions options;
  options.vocabulary = 23;
  options.layers = 3;
  options.heads = 4;
  options.width = 32;
  options.context = 12;
  options.mechanism = small.mechanism;
  options.key_value_heads = small.key_value_heads;
  tasks::language::set_form(options, small.form, "form");
  tasks::language::LanguageModel model(options);
  model->initialize(1);
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(1);
  // Large enough that heads differ, gains and biases too.
  for (at::Tensor& parameter : model->parameters()) parameter.add_(torch::randn_like(parameter), 0.2);
  model->to(at::kDouble);
  return model;
}

inline Prompts small_prompts() {
  torch::manual_seed(2);
  return {.tokens = at::randint(23, {5, 9}, at::kLong),
          .end = torch::tensor({8, 6, 8, 7, 3}, at::kLong),
          .answer = torch::tensor({1, 2, 3, 4, 5}, at::kLong),
          .foil = torch::tensor({6, 2 + 5, 8, 9, 10}, at::kLong)};
}

inline at::Tensor other_tokens() {
  torch::manual_seed(3);
  return at::randint(23, {5, 9}, at::kLong);
}

}  // namespace cogwheel::interpret
