// The task of predicting hidden words.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/encoders/sentence_data.h"

namespace cogwheel::tasks::encoders {

// `options`: of the configuration, which records them.
std::shared_ptr<const runs::Task> make_masked_words(std::shared_ptr<const SentenceCorpus> corpus,
                                                    const WordMasking& masking = {},
                                                    runs::TaskOptions options = {.name = "masked_words"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_masked_words(const runs::RunConfig& config, const runs::RandomItems& items);

}  // namespace cogwheel::tasks::encoders
