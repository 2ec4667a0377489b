// The task of predicting the next point of a pen.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/handwriting/stroke_source.h"

namespace cogwheel {

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_handwriting(std::shared_ptr<const StrokeSource> source,
                                             TaskOptions options = {.name = "handwriting"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const Task> random_handwriting(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel
