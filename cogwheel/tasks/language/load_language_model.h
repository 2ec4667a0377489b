// The language model of a run on disk.
#pragma once
#include <filesystem>
#include <memory>

namespace cogwheel {

class LanguageModel;
class RunFolder;

// The model of a run with the weights of its checkpoint, for sampling and inspection. Throws Error where the model in
// config.toml differs from that of the checkpoint, or the task of the run trains no language model.
std::shared_ptr<LanguageModel> load_language_model(const RunFolder& folder);
std::shared_ptr<LanguageModel> load_language_model(const RunFolder& folder, const std::filesystem::path& checkpoint);

}  // namespace cogwheel
