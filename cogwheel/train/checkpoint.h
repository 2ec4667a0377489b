// The weights of a checkpoint, without the run around them. TrainingRun::save and ::load hold the whole of it.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "cogwheel/train/safetensors.h"

namespace cogwheel {

class LanguageModel;

// Throws Error where the file is damaged: not those bytes that were written, or numbers that no run saves.
SafeTensors load_checkpoint(const std::filesystem::path& path);

// What the checkpoint says that it is of, as train/config_record.h writes it. None where it is an older one; throws
// Error where it cannot be read.
std::optional<nlohmann::ordered_json> recorded_configuration(const SafeTensors& checkpoint,
                                                             const std::filesystem::path& path);

// Copies every tensor "model.<name>"; throws Error naming the first that is missing, of another shape or
// type, or not the model's.
void load_weights(LanguageModel& model, const SafeTensors& checkpoint, const std::filesystem::path& path);

}  // namespace cogwheel
