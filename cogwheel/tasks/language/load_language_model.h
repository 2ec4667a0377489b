// The language model of a run on disk.
#pragma once
#include <filesystem>
#include <memory>

#include "cogwheel/nn/weights/number_type.h"

namespace cogwheel::runs {
class RunFolder;
}  // namespace cogwheel::runs

namespace cogwheel::nn {
class NarrowWeights;
}  // namespace cogwheel::nn

namespace cogwheel::tasks::language {

class LanguageModel;

// The model of a run with the weights of its checkpoint, for sampling and inspection. Throws Error where the model in
// config.toml differs from that of the checkpoint, or the task of the run trains no language model.
std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder);
std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder,
                                                   const std::filesystem::path& checkpoint);

// Its matrices as `type`, in force where a NarrowProducts of them is. With `released`, it has them alone.
// Null for float32, of which there is nothing to make.
std::unique_ptr<nn::NarrowWeights> narrow_weights(LanguageModel& model, nn::NumberType type, bool released = false);

}  // namespace cogwheel::tasks::language
