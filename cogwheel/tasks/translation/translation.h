// The task of translating sentences.
#pragma once
#include <memory>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/translation/beam_search_options.h"
#include "cogwheel/tasks/translation/translation_data.h"

namespace cogwheel {

struct TranslationSettings {
  double label_smoothing = 0.1;
  BeamOptions beam;
};

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_translation(std::shared_ptr<const TranslationData> data,
                                             const TranslationSettings& settings = {},
                                             TaskOptions options = {.name = "translation"});

// The same on random numbers: TaskEntry::random.
std::shared_ptr<const Task> random_translation(const RunConfig& config, const RandomItems& items);

}  // namespace cogwheel
