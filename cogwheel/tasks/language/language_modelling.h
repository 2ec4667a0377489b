// The task of predicting the next token of a text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/lessons.h"
#include "cogwheel/text/dataset.h"

namespace cogwheel::tasks::language {

// `text`: as in DataFacts::text.
std::shared_ptr<const runs::Task> make_language_modelling(std::shared_ptr<const text::Dataset> data,
                                                          std::vector<std::string> text = {},
                                                          std::int64_t byte_limit = 0, Lessons lessons = {});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_language_modelling(const runs::RunConfig& config,
                                                            const runs::RandomItems& items);

}  // namespace cogwheel::tasks::language
