// The task of predicting the next point of a pen.
#pragma once
#include <memory>

#include "cogwheel/data/stroke_source.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_handwriting(std::shared_ptr<const StrokeSource> source,
                                             TaskOptions options = {.name = "handwriting"});

}  // namespace cogwheel
