// `ViTForImageClassification` of Hugging Face's transformers: Dosovitskiy et al., "An Image is Worth 16x16 Words: Image
// Recognition at Scale" (2021), classified by the token of the class.
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/plain_layers.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"

namespace cogwheel::interchange::vit {
namespace {

constexpr const char *name = "ViTForImageClassification", *preprocessor_file = "preprocessor_config.json";

bool is(const runs::ModelOptions& model) { return model.get_if<tasks::images::VisionTransformerOptions>() != nullptr; }

TensorTable tensors(const runs::ModelOptions& model) {
  const auto& options = model.as<tasks::images::VisionTransformerOptions>();
  const std::int64_t width = options.width, patch = options.patch, hidden = options.feed_forward_width();
  TensorTable table(name);
  const std::string embeddings = "vit.embeddings.";
  table.add("patch.weight", {width, options.channels * patch * patch},
            embeddings + "patch_embeddings.projection.weight", {width, options.channels, patch, patch});
  table.add("patch.bias", {width}, embeddings + "patch_embeddings.projection.bias");
  table.add("class_token", {width}, embeddings + "cls_token", {1, 1, width});
  table.add("position_embedding", {options.tokens(), width}, embeddings + "position_embeddings",
            {1, options.tokens(), width});
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = "layers." + std::to_string(layer) + ".",
                      theirs = "vit.encoder.layer." + std::to_string(layer) + ".",
                      attention = theirs + "attention.attention.";
    table.norm(ours + "attention_norm", theirs + "layernorm_before", width);
    table.linear(ours + "attention.query_key_value", {attention + "query", attention + "key", attention + "value"},
                 width, 3 * width);
    table.linear(ours + "attention.output", {theirs + "attention.output.dense"}, width, width);
    table.norm(ours + "feed_forward_norm", theirs + "layernorm_after", width);
    table.linear(ours + "feed_forward.up", {theirs + "intermediate.dense"}, width, hidden);
    table.linear(ours + "feed_forward.out", {theirs + "output.dense"}, hidden, width);
  }
  table.norm("final_norm", "vit.layernorm", width);
  table.linear("head", {"classifier"}, width, options.vocabulary);
  table.unused("vit.pooler.");  // of the weights before they learned to classify
  return table;
}

// Pixels are scaled to [-1, 1] here: (x / 255 − 0.5) / 0.5.
void expect_same_pixels(const std::filesystem::path& path, std::int64_t image_size) {
  if (!std::filesystem::exists(path)) return;
  const nlohmann::json json = json_object(path);
  const auto expect = [&](const char* key, const nlohmann::json& value, const auto& is_same) {
    if (json.contains(key) && !json[key].is_null() && !is_same(json[key]))
      throw Error(
          expected_got(path.string() + ": " + key, value.dump() + ", as images are scaled here", json[key].dump()));
  };
  const auto halves = [](const nlohmann::json& given) {
    return given == nlohmann::json{0.5, 0.5, 0.5} || given == 0.5;
  };
  expect("image_mean", {0.5, 0.5, 0.5}, halves);
  expect("image_std", {0.5, 0.5, 0.5}, halves);
  expect("do_normalize", true, [](const nlohmann::json& given) { return given == true; });
  expect("rescale_factor", 1.0 / 255, [](const nlohmann::json& given) {
    return given.is_number() && std::abs(given.get<double>() * 255 - 1) < 1e-6;
  });
  const nlohmann::json sides = {{"height", image_size}, {"width", image_size}};
  expect("size", sides, [&](const nlohmann::json& given) { return given == sides || given == image_size; });
}

ForeignModel read(ForeignConfig& config, const std::filesystem::path& folder) {
  config.expect("model_type", "vit");
  config.expect("qkv_bias", true);
  ForeignModel read;
  tasks::images::VisionTransformerOptions options;
  options.context = 0;
  options.image_size = config.whole("image_size", 224, {1, 1 << 14});
  options.patch = config.whole("patch_size", 16, {1, 1 << 14});
  options.channels = config.whole("num_channels", 3, {1, 1 << 10});
  read_transformer(config, options, read.notes);
  const std::vector<std::string> names = config.class_names();
  options.vocabulary = read_class_count(config, names);
  config.skip({"encoder_stride", "pooler_output_size", "pooler_act"});
  expect_same_pixels(folder / preprocessor_file, options.image_size);
  read.config.task.name = "images";
  read.config.model = options;
  read.files = {class_names_file(names, options.vocabulary)};
  return read;
}

WrittenModel write(ModelToWrite& model) {
  const runs::RunConfig& run = model.config;
  const std::filesystem::path& folder = model.run;
  const auto& options = run.model.as<tasks::images::VisionTransformerOptions>();
  nlohmann::ordered_json config = {{"architectures", {name}}, {"model_type", "vit"}};
  add_transformer(config, options);
  config["image_size"] = options.image_size;
  config["patch_size"] = options.patch;
  config["num_channels"] = options.channels;
  config["qkv_bias"] = true;
  add_all_class_names(config, folder, options.vocabulary);
  const auto halves = nlohmann::ordered_json::array({0.5, 0.5, 0.5});
  const nlohmann::ordered_json preprocessor = {
      {"image_processor_type", "ViTImageProcessor"},
      {"do_resize", true},
      {"size", {{"height", options.image_size}, {"width", options.image_size}}},
      {"do_rescale", true},
      {"rescale_factor", 1.0 / 255},
      {"do_normalize", true},
      {"image_mean", halves},
      {"image_std", halves}};
  std::vector<runs::RunFile> files{{config_file, config.dump(2) + "\n"}};
  if (options.channels == 3) files.push_back({preprocessor_file, preprocessor.dump(2) + "\n"});
  return {.files = std::move(files)};
}

std::string lack(const runs::ModelOptions& model) {
  const auto& options = model.as<tasks::images::VisionTransformerOptions>();
  const std::string of_layers = lack_of_layers(options, name);
  if (!of_layers.empty() || options.pooling == "class") return of_layers;
  return expected_got("model.pooling", std::string("class, as in every ") + name, options.pooling);
}

}  // namespace
}  // namespace cogwheel::interchange::vit

namespace cogwheel::interchange {

Architecture vit_for_image_classification() {
  return {vit::name,    "a vision transformer that classifies images (transformers)",
          vit::is,      vit::lack,
          vit::tensors, vit::read,
          vit::write};
}

}  // namespace cogwheel::interchange
