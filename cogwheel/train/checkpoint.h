// The weights of a checkpoint, without the run around them. TrainingRun::save and ::load hold the whole of it.
#pragma once
#include <filesystem>

#include "cogwheel/models/language_model.h"
#include "cogwheel/train/safetensors.h"

namespace cogwheel {

// Copies every tensor "model.<name>"; throws Error naming the first that is missing or of another shape.
void load_weights(LanguageModel& model, const SafeTensors& checkpoint, const std::filesystem::path& path);

}  // namespace cogwheel
