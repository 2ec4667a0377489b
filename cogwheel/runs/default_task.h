// What the task of configurations that name none is: language modelling.
#pragma once
#include <string>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

// `item`: the kind of one token, character or byte.
TaskDescription describe_language_modelling(const std::string& item);

}  // namespace cogwheel::runs
