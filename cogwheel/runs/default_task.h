// What the task of configurations that name none is: language modelling.
#pragma once
#include <string>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

// `item`: what one token is called.
TaskDescription describe_language_modelling(const std::string& item);

// What one token of such a tokenizer is called: a character, a byte, else a token.
std::string item_of(std::string_view tokenizer);

}  // namespace cogwheel::runs
