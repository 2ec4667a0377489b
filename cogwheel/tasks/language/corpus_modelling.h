// The task of predicting the next token of prepared corpora.
#pragma once
#include <filesystem>
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/lessons.h"

namespace cogwheel::tasks::language {

// `context`: the tokens of a window. `folder`: as of TaskEntry::make. Throws UsageError for options that do not fit,
// Error for what PreparedCorpus refuses, corpora of several tokenizers or of another than the run has, and other
// corpora than data.sha256 says.
std::shared_ptr<const runs::Task> make_corpus_modelling(const runs::DataOptions& options, std::int64_t context,
                                                        const std::filesystem::path& folder, Lessons lessons = {});

}  // namespace cogwheel::tasks::language
