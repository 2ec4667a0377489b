#include "cogwheel/runs/weights.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/configuration/config_record.h"

namespace cogwheel::runs {
namespace {

bool is_weight(const std::string& name) { return name.starts_with(weight_prefix) || name.starts_with(average_prefix); }

void expect_whole(const SafeTensors& checkpoint, const std::filesystem::path& path) {
  const auto recorded = [&](const char* key) {
    const auto place = checkpoint.metadata.find(key);
    return place == checkpoint.metadata.end() ? std::string("none") : place->second;
  };
  if (const std::string format = recorded("format"); format != checkpoint_format)
    throw Error(expected_got(path.string() + ": format", checkpoint_format, format));
  if (const std::string hash = recorded("sha256"); hash != sha256(checkpoint))
    throw Error(expected_got(path.string(), "the contents that were written (SHA-256 " + hash + ")",
                             "others: the file is damaged"));
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (tensor.is_floating_point() &&
        !(is_weight(name) ? tensor.isfinite() : tensor.isnan().logical_not()).all().item<bool>())
      throw Error(expected_got(path.string(), "finite numbers", "NaN or infinity in " + name));
}

}  // namespace

void save_weights(const std::map<std::string, at::Tensor>& weights, const RunConfig& config,
                  const std::filesystem::path& path) {
  SafeTensors checkpoint;
  for (const auto& [name, tensor] : weights) checkpoint.tensors[weight_prefix + name] = tensor.detach().cpu();
  checkpoint.metadata = {{"format", checkpoint_format}, {"configuration", to_json(config).dump()}};
  checkpoint.metadata["sha256"] = sha256(checkpoint);
  save_safetensors(checkpoint, path);
}

void copy_tensor(const SafeTensors& checkpoint, const std::string& name, at::Tensor target,
                 const std::filesystem::path& path) {
  const auto found = checkpoint.tensors.find(name);
  const std::string expected = name + " of shape " + shape_text(target.sizes());
  if (found == checkpoint.tensors.end()) throw Error(expected_got(path.string(), expected, "no such tensor"));
  if (found->second.sizes() != target.sizes())
    throw Error(expected_got(path.string(), expected, "shape " + shape_text(found->second.sizes())));
  if (found->second.scalar_type() != target.scalar_type())
    throw Error(expected_got(path.string(), name + " of type " + at::toString(target.scalar_type()),
                             at::toString(found->second.scalar_type())));
  target.copy_(found->second);
}

SafeTensors load_checkpoint(const std::filesystem::path& path) {
  SafeTensors checkpoint = load_safetensors(path);
  expect_whole(checkpoint, path);
  return checkpoint;
}

nlohmann::ordered_json recorded_configuration(const SafeTensors& checkpoint, const std::filesystem::path& path) {
  const auto recorded = checkpoint.metadata.find("configuration");
  const std::string text = recorded == checkpoint.metadata.end() ? "nothing" : recorded->second;
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*exceptions=*/false);
  if (json.is_object()) return json;
  throw Error(expected_got(path.string() + ": configuration", "an object of keys and values", text));
}

const std::string& prefix_in_use(const SafeTensors& checkpoint) {
  const auto first = checkpoint.tensors.lower_bound(average_prefix);
  return first != checkpoint.tensors.end() && first->first.starts_with(average_prefix) ? average_prefix : weight_prefix;
}

void load_weights(torch::nn::Module& model, const SafeTensors& checkpoint, const std::filesystem::path& path,
                  const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  for (const auto& parameter : parameters) copy_tensor(checkpoint, prefix + parameter.key(), parameter.value(), path);
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.starts_with(prefix) && parameters.find(name.substr(prefix.size())) == nullptr)
      throw Error(expected_got(path.string(), "the tensors of its configuration", "another, " + name));
}

}  // namespace cogwheel::runs
