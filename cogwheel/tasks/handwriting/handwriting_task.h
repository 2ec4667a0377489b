// The task of predicting the next point of a pen.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/handwriting/stroke_source.h"

namespace cogwheel::tasks::handwriting {

// `options`: of the configuration, which records them.
std::shared_ptr<const runs::Task> make_handwriting(std::shared_ptr<const StrokeSource> source,
                                                   runs::TaskOptions options = {.name = "handwriting"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_handwriting(const runs::RunConfig& config, const runs::RandomItems& items);

}  // namespace cogwheel::tasks::handwriting
