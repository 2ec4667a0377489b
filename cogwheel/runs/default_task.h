// The task of runs and results that name none, as older ones do: language modelling.
#pragma once
#include <string>

#include "cogwheel/runs/task.h"

namespace cogwheel {

// `item`: the kind of one token, character or byte.
TaskDescription describe_language_modelling(const std::string& item);

}  // namespace cogwheel
