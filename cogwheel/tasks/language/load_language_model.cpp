#include "cogwheel/tasks/language/load_language_model.h"

#include "cogwheel/core/error.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {

std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder) {
  return load_language_model(folder, folder.checkpoint_path());
}

std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder,
                                                   const std::filesystem::path& checkpoint) {
  const runs::RunConfig config = runs::load_config(folder.config_path());
  if (config.model.get_if<LanguageModelOptions>() == nullptr)
    throw Error(expected_got(folder.path().string(), "a run that trains a language model",
                             "one of the task " + config.task.name));
  auto model = std::make_shared<LanguageModel>(config.model.as<LanguageModelOptions>());
  runs::load_weights_of(**model, config, folder, checkpoint);
  return model;
}

std::unique_ptr<nn::NarrowWeights> narrow_weights(LanguageModel& model, nn::NumberType type, bool released) {
  if (type == nn::NumberType::float32) return nullptr;
  const at::Tensor embeddings[] = {model->token_embedding()};
  return std::make_unique<nn::NarrowWeights>(*model, embeddings, type, released);
}

}  // namespace cogwheel::tasks::language
