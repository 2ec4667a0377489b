// What a language model has in common with another whose weights it takes over.
#pragma once
#include <string>

#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

// Throws UsageError that names the first key in which `model` differs from `start`, the model of the run `name`, and
// which decides the size of what is no mixer: width, layers, vocabulary, hidden units and their kind.
void expect_convertible(const LanguageModelOptions& start, const LanguageModelOptions& model, const std::string& name);

}  // namespace cogwheel::tasks::language
