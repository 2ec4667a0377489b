// A small model whose next tokens are far from equally likely.
#pragma once
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {

// 20 tokens, two heads, width 16; the rest as `options`. `scale`: of initial weights.
inline LanguageModel made_for_generation(LanguageModelOptions options, double scale = 8) {
  options.vocabulary = 20;
  options.heads = 2;
  options.width = 16;
  LanguageModel model(options);
  model->initialize(3);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.mul_(scale);
  return model;
}

}  // namespace cogwheel::tasks::language
