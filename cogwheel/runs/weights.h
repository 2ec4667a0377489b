// The weights of a checkpoint, without the state of training: what a sampler, a server or an exporter needs.
// TrainingRun::save and ::load write and read the whole checkpoint.
//
// A checkpoint is a safetensors file with the tensors "model.<name>" and, from a run, "first_moment.<name>" and
// "second_moment.<name>", and "average.<name>" where the run averages its weights; its metadata hold, as JSON, the
// configuration, the rest of the run ("state"), the SHA-256 of the tokenizer beside it, where there is one, and a hash
// of all contents.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cogwheel/runs/safetensors.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

class RunFolder;
struct RunConfig;
struct RunFile;

inline const std::string weight_prefix = "model.", average_prefix = "average.";
inline constexpr const char* checkpoint_format = "cogwheel checkpoint 1";

// Writes a checkpoint of weights alone, by the names of parameters: of a run that was not trained here and cannot be
// resumed; `files` are those of its folder. Replaces the file atomically.
void save_weights(const std::map<std::string, at::Tensor>& weights, const RunConfig& config,
                  const std::vector<RunFile>& files, const std::filesystem::path& path);

// The metadata of a checkpoint that say with which tokenizer, of these files, its model learns; none without one.
std::map<std::string, std::string> tokenizer_metadata(const std::vector<RunFile>& files);
// Throws Error where another tokenizer lies in the run's folder than the checkpoint says. Checkpoints from before these
// metadata say nothing.
void expect_own_tokenizer(const SafeTensorsFile& checkpoint, const RunFolder& folder);

// Throws Error where the file is no checkpoint of this format, or damaged: its bytes are not those that were written,
// or it has numbers that no run saves. Reads all of it, and keeps none.
void expect_whole(const SafeTensorsFile& checkpoint);

// The configuration that the checkpoint records, as runs/configuration/config_record.h writes it. Throws Error where it
// cannot be read.
nlohmann::ordered_json recorded_configuration(const SafeTensorsFile& checkpoint);

// A tensor of the checkpoint that can be read into `target`; throws Error where it is missing, or of another shape or
// type.
const SafeTensorsFile::Entry& entry_for(const SafeTensorsFile& checkpoint, const std::string& name,
                                        const at::Tensor& target);
// Copies it, to whatever device.
void copy_tensor(const SafeTensorsFile& checkpoint, const std::string& name, const at::Tensor& target);

// Throws Error that names the first tensor "model.<name>", or with another prefix, that is not part of the model.
void expect_no_other_weights(const torch::nn::Module& model, const SafeTensorsFile& checkpoint,
                             const std::string& prefix = weight_prefix);
// Throws Error that names the first tensor "model.<name>", or with another prefix, that is missing, of another shape or
// type, or not part of the model.
void expect_weights(const torch::nn::Module& model, const SafeTensorsFile& checkpoint,
                    const std::string& prefix = weight_prefix);
// Copies them all, one after the other, or throws the same and copies none.
void load_weights(torch::nn::Module& model, const SafeTensorsFile& checkpoint,
                  const std::string& prefix = weight_prefix);
// The prefix of the weights that a trained model is used with: the averages where there are some.
const std::string& prefix_in_use(const SafeTensorsFile& checkpoint);

}  // namespace cogwheel::runs
