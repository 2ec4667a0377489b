#include "cogwheel/tasks/language/language_preset.h"

#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

runs::Preset language_preset(std::string_view name, std::string_view summary, std::int64_t layers, std::int64_t heads,
                             std::int64_t width, std::int64_t context, std::int64_t batch) {
  LanguageModelOptions model;
  model.layers = layers;
  model.heads = heads;
  model.width = width;
  model.context = context;
  runs::Preset made{.name = name,
                    .summary = summary,
                    .model = model,
                    .training = {},
                    .evaluated_tokens = evaluated_tokens,
                    .seconds = 330};
  made.training.batch = batch;
  made.training.curve_tokens = 4096;
  return made;
}

}  // namespace cogwheel::tasks::language
