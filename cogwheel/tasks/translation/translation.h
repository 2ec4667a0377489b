// The task of translating sentences.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/translation/beam_search_options.h"
#include "cogwheel/tasks/translation/translation_data.h"

namespace cogwheel::tasks::translation {

struct TranslationSettings {
  double label_smoothing = 0.1;
  BeamOptions beam;
};

// `options`: of the configuration, which records them.
std::shared_ptr<const runs::Task> make_translation(std::shared_ptr<const TranslationData> data,
                                                   const TranslationSettings& settings = {},
                                                   runs::TaskOptions options = {.name = "translation"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const runs::Task> random_translation(const runs::RunConfig& config, const runs::RandomItems& items);

}  // namespace cogwheel::tasks::translation
