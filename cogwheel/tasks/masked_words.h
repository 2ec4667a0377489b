// The task of predicting hidden words.
#pragma once
#include <memory>

#include "cogwheel/tasks/sentence_data.h"

namespace cogwheel {

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_masked_words(std::shared_ptr<const SentenceCorpus> corpus,
                                              const WordMasking& masking = {},
                                              TaskOptions options = {.name = "masked_words"});

}  // namespace cogwheel
