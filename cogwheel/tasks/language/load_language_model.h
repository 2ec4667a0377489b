// The language model of a run on disk.
#pragma once
#include <filesystem>
#include <memory>

namespace cogwheel::runs {
class RunFolder;
}  // namespace cogwheel::runs

namespace cogwheel::tasks::language {

class LanguageModel;

// The model of a run with the weights of its checkpoint, for sampling and inspection. Throws Error where the model in
// config.toml differs from that of the checkpoint, or the task of the run trains no language model.
std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder);
std::shared_ptr<LanguageModel> load_language_model(const runs::RunFolder& folder,
                                                   const std::filesystem::path& checkpoint);

}  // namespace cogwheel::tasks::language
