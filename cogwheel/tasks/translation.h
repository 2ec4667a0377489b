// The task of translating sentences.
#pragma once
#include <memory>

#include "cogwheel/models/beam_search_options.h"
#include "cogwheel/tasks/translation_data.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

struct TranslationSettings {
  double label_smoothing = 0.1;
  BeamOptions beam;
};

// `options`: of the configuration, which records them.
std::shared_ptr<const Task> make_translation(std::shared_ptr<const TranslationData> data,
                                             const TranslationSettings& settings = {},
                                             TaskOptions options = {.name = "translation"});

}  // namespace cogwheel
