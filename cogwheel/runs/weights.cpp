#include "cogwheel/runs/weights.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::runs {
namespace {

const std::string tokenizer_key = "tokenizer_sha256";

bool is_weight(const std::string& name) { return name.starts_with(weight_prefix) || name.starts_with(average_prefix); }

}  // namespace

void save_weights(const std::map<std::string, at::Tensor>& weights, const RunConfig& config,
                  const std::vector<RunFile>& files, const std::filesystem::path& path) {
  SafeTensors checkpoint;
  for (const auto& [name, tensor] : weights) checkpoint.tensors[weight_prefix + name] = tensor.detach().cpu();
  checkpoint.metadata = {{"format", checkpoint_format}, {"configuration", to_json(config).dump()}};
  checkpoint.metadata.merge(tokenizer_metadata(files));
  checkpoint.metadata["sha256"] = sha256(checkpoint);
  save_safetensors(checkpoint, path);
}

std::map<std::string, std::string> tokenizer_metadata(const std::vector<RunFile>& files) {
  for (const RunFile& file : files)
    if (file.name == tokenizer_file) return {{tokenizer_key, cogwheel::sha256(file.content)}};
  return {};
}

void expect_own_tokenizer(const SafeTensorsFile& checkpoint, const RunFolder& folder) {
  const auto recorded = checkpoint.metadata().find(tokenizer_key);
  std::error_code problem;
  if (recorded == checkpoint.metadata().end() || !std::filesystem::exists(folder.tokenizer_path(), problem)) return;
  if (const std::string got = sha256_of_file(folder.tokenizer_path()); got != recorded->second)
    throw Error(expected_got(folder.tokenizer_path().string(),
                             "the tokenizer of " + checkpoint.path().string() + ", SHA-256 " + recorded->second,
                             "another, " + got));
}

void expect_whole(const SafeTensorsFile& checkpoint) {
  const std::filesystem::path& path = checkpoint.path();
  const auto recorded = [&](const char* key) {
    const auto place = checkpoint.metadata().find(key);
    return place == checkpoint.metadata().end() ? std::string("none") : place->second;
  };
  if (const std::string format = recorded("format"); format != checkpoint_format)
    throw DamagedFile(expected_got(path.string() + ": format", checkpoint_format, format));
  std::mutex mutex;
  std::string strange;  // the first of those with such numbers
  const auto look = [&](const SafeTensorsFile::Entry& entry, const at::Tensor& piece) {
    if (!piece.is_floating_point() || piece.element_size() == 1 ||  // float8, in which no run saves
        (is_weight(entry.name) ? piece.isfinite() : piece.isnan().logical_not()).all().item<bool>())
      return;
    const std::lock_guard lock(mutex);
    if (strange.empty() || entry.name < strange) strange = entry.name;
  };
  if (const std::string hash = recorded("sha256"); hash != checkpoint.sha256(look))
    throw DamagedFile(expected_got(path.string(), "the contents that were written (SHA-256 " + hash + ")",
                                   "others: the file is damaged"));
  if (!strange.empty())
    throw DamagedFile(expected_got(path.string(), "finite numbers", "NaN or infinity in " + strange));
}

nlohmann::ordered_json recorded_configuration(const SafeTensorsFile& checkpoint) {
  const auto recorded = checkpoint.metadata().find("configuration");
  const std::string text = recorded == checkpoint.metadata().end() ? "nothing" : recorded->second;
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*exceptions=*/false);
  if (json.is_object()) return json;
  throw Error(expected_got(checkpoint.path().string() + ": configuration", "an object of keys and values", text));
}

const SafeTensorsFile::Entry& entry_for(const SafeTensorsFile& checkpoint, const std::string& name,
                                        const at::Tensor& target) {
  const std::string path = checkpoint.path().string(), expected = name + " of shape " + shape_text(target.sizes());
  const SafeTensorsFile::Entry* const found = checkpoint.find(name);
  if (found == nullptr) throw Error(expected_got(path, expected, "no such tensor"));
  if (target.sizes() != found->shape) throw Error(expected_got(path, expected, "shape " + shape_text(found->shape)));
  if (found->type != target.scalar_type())
    throw Error(expected_got(path, name + " of type " + at::toString(target.scalar_type()), at::toString(found->type)));
  return *found;
}

void copy_tensor(const SafeTensorsFile& checkpoint, const std::string& name, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  checkpoint.read_into(entry_for(checkpoint, name, target), target);
}

const std::string& prefix_in_use(const SafeTensorsFile& checkpoint) {
  const auto& entries = checkpoint.entries();
  const bool averaged = std::any_of(entries.begin(), entries.end(),
                                    [](const auto& entry) { return entry.name.starts_with(average_prefix); });
  return averaged ? average_prefix : weight_prefix;
}

void expect_no_other_weights(const torch::nn::Module& model, const SafeTensorsFile& checkpoint,
                             const std::string& prefix) {
  const auto parameters = model.named_parameters();
  for (const SafeTensorsFile::Entry& entry : checkpoint.entries())
    if (entry.name.starts_with(prefix) && parameters.find(entry.name.substr(prefix.size())) == nullptr)
      throw Error(
          expected_got(checkpoint.path().string(), "the tensors of its configuration", "another, " + entry.name));
}

void expect_weights(const torch::nn::Module& model, const SafeTensorsFile& checkpoint, const std::string& prefix) {
  for (const auto& parameter : model.named_parameters())
    entry_for(checkpoint, prefix + parameter.key(), parameter.value());
  expect_no_other_weights(model, checkpoint, prefix);
}

void load_weights(torch::nn::Module& model, const SafeTensorsFile& checkpoint, const std::string& prefix) {
  expect_weights(model, checkpoint, prefix);
  for (const auto& parameter : model.named_parameters())
    copy_tensor(checkpoint, prefix + parameter.key(), parameter.value());
}

}  // namespace cogwheel::runs
