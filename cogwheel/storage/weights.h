// The weights of a checkpoint, without the run around them: what a sampler, a server or an exporter needs.
// TrainingRun::save and ::load hold the whole of it.
//
// A checkpoint is a safetensors file with the tensors "model.<name>", and of a run also "first_moment.<name>" and
// "second_moment.<name>"; its metadata hold, as JSON, the configuration that it is of and the rest of the run
// ("state"), with a hash of it all.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cogwheel/storage/safetensors.h"

namespace torch::nn {
class Module;
}

namespace cogwheel {

inline const std::string weight_prefix = "model.";

// Throws Error where the file is damaged: not those bytes that were written, or numbers that no run saves.
SafeTensors load_checkpoint(const std::filesystem::path& path);

// What the checkpoint says that it is of, as configuration/config_record.h writes it. None where it is an older one;
// throws Error where it cannot be read.
std::optional<nlohmann::ordered_json> recorded_configuration(const SafeTensors& checkpoint,
                                                             const std::filesystem::path& path);

// Copies a tensor of the checkpoint onto `target`, wherever that lies; throws Error where it is missing, or of another
// shape or type.
void copy_tensor(const SafeTensors& checkpoint, const std::string& name, at::Tensor target,
                 const std::filesystem::path& path);

// Copies every tensor "model.<name>"; throws Error naming the first that is missing, of another shape or type, or not
// the model's.
void load_weights(torch::nn::Module& model, const SafeTensors& checkpoint, const std::filesystem::path& path);

}  // namespace cogwheel
