// U-ViT, as the code that was published with it keeps its weights: Bao et al., "All are Worth Words: A ViT Backbone for
// Diffusion Models" (2023), classes UViT of uvit.py and uvit_t2i.py. Their weights come without a configuration:
// config.json holds the arguments of the class.
#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/plain_layers.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/tasks/images/u_vit_options.h"

namespace cogwheel::interchange::u_vit {
namespace {

constexpr const char* name = "UViT";

bool is(const runs::ModelOptions& model) { return model.get_if<tasks::images::UVitOptions>() != nullptr; }

// The layers of the first half, the middle one, those of the second half.
std::string block_name(std::int64_t layer, std::int64_t layers) {
  const std::int64_t half = layers / 2;
  if (layer == half) return "mid_block.";
  return layer < half ? "in_blocks." + std::to_string(layer) + "."
                      : "out_blocks." + std::to_string(layer - half - 1) + ".";
}

TensorTable tensors(const runs::ModelOptions& model) {
  const auto& options = model.as<tasks::images::UVitOptions>();
  const std::int64_t width = options.width, patch = options.patch, channels = options.channels,
                     hidden = options.feed_forward_width();
  TensorTable table(name);
  table.add("patch.weight", {width, channels * patch * patch}, "patch_embed.proj.weight",
            {width, channels, patch, patch});
  table.add("patch.bias", {width}, "patch_embed.proj.bias");
  if (options.vocabulary > 0) table.add("class_embedding", {options.vocabulary + 1, width}, "label_emb.weight");
  if (options.condition_width > 0) table.linear("condition", {"context_embed"}, options.condition_width, width);
  table.add("position_embedding", {options.tokens(), width}, "pos_embed", {1, options.tokens(), width});
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string ours = "layers." + std::to_string(layer) + ".", theirs = block_name(layer, options.layers);
    table.norm(ours + "attention_norm", theirs + "norm1", width);
    table.linear(ours + "attention.query_key_value", {theirs + "attn.qkv"}, width, 3 * width, {.bias = Bias::none});
    table.linear(ours + "attention.output", {theirs + "attn.proj"}, width, width);
    table.norm(ours + "feed_forward_norm", theirs + "norm2", width);
    table.linear(ours + "feed_forward.up", {theirs + "mlp.fc1"}, width, hidden);
    table.linear(ours + "feed_forward.out", {theirs + "mlp.fc2"}, hidden, width);
    if (const std::int64_t skip = layer - options.layers / 2 - 1; skip >= 0)
      table.linear("skips." + std::to_string(skip), {theirs + "skip_linear"}, 2 * width, width);
  }
  table.norm("final_norm", "norm", width);
  table.linear("pixels", {"decoder_pred"}, width, channels * patch * patch);
  table.add("convolution_weight", {channels, channels, 3, 3}, "final_layer.weight");
  table.add("convolution_bias", {channels}, "final_layer.bias");
  return table;
}

// As int(width · ratio) of their code has it.
std::int64_t hidden_of(std::int64_t width, double ratio) {
  return static_cast<std::int64_t>(static_cast<double>(width) * ratio);
}

double ratio_of(std::int64_t width, std::int64_t hidden) {
  const double ratio = static_cast<double>(hidden) / static_cast<double>(width);
  return hidden_of(width, ratio) == hidden ? ratio : std::nextafter(ratio, 2 * ratio);
}

ForeignModel read(ForeignConfig& config, const std::filesystem::path&) {
  using Count = Range<std::int64_t>;
  tasks::images::UVitOptions options;
  options.context = 0;
  options.image_size = config.whole("img_size", Count{1, 1 << 14});
  options.patch = config.whole("patch_size", Count{1, 1 << 14});
  options.channels = config.whole("in_chans", 3, Count{1, 1 << 10});
  options.width = config.whole("embed_dim", Count{1, 1 << 20});
  options.layers = config.whole("depth", Count{0, 10'000}) / 2 * 2 + 1;
  options.heads = config.whole("num_heads", Count{1, 1 << 20});
  options.feed_forward = hidden_of(options.width, config.number("mlp_ratio", 4, {0, 1 << 10, true}));
  const std::int64_t labels = config.whole("num_classes", -1, Count{-1, 1 << 24});
  // The last label stands for no class.
  options.vocabulary = std::max<std::int64_t>(0, labels - 1);
  if (labels == 1) throw Error(expected_got(config.path().string() + ": num_classes", "-1, or 2 and more", "1"));
  const bool vectors = config.has("clip_dim");
  options.condition_width = vectors ? config.whole("clip_dim", Count{1, 1 << 20}) : 0;
  options.condition_tokens = vectors ? config.whole("num_clip_token", 77, Count{1, 1 << 20}) : 0;
  config.expect("qkv_bias", false);
  config.expect("qk_scale", nullptr);
  config.expect("mlp_time_embed", false);
  config.expect("conv", true);
  config.expect("skip", true);
  config.skip({"name", "use_checkpoint", "clip_dim", "num_clip_token"});
  const std::vector<std::string> names = config.class_names();
  if (!names.empty() && std::ssize(names) != options.vocabulary)
    throw Error(expected_got(config.path().string() + ": id2label",
                             std::to_string(options.vocabulary) + " names, one less than num_classes",
                             std::to_string(names.size())));
  ForeignModel read;
  read.config.task = {.name = "diffusion",
                      .values = {{"condition", std::string(options.vocabulary > 0 ? "class"
                                                           : vectors              ? "context"
                                                                                  : "none")}}};
  read.config.model = options;
  if (options.vocabulary > 0) read.files = {class_names_file(names, options.vocabulary)};
  return read;
}

WrittenModel write(ModelToWrite& model) {
  const runs::RunConfig& run = model.config;
  const std::filesystem::path& folder = model.run;
  const auto& options = run.model.as<tasks::images::UVitOptions>();
  // Their samplers take what the network tells for the noise.
  if (const auto told = run.task.values.find("prediction");
      told != run.task.values.end() && told->second != runs::ConfigValue(std::string("noise")))
    throw Error(expected_got(folder.string(), "task.prediction noise, as UViT is sampled from", "another"));
  nlohmann::ordered_json config = {{"architectures", {name}},
                                   {"img_size", options.image_size},
                                   {"patch_size", options.patch},
                                   {"in_chans", options.channels},
                                   {"embed_dim", options.width},
                                   {"depth", options.layers - 1},
                                   {"num_heads", options.heads},
                                   {"mlp_ratio", ratio_of(options.width, options.feed_forward_width())},
                                   {"qkv_bias", false},
                                   {"mlp_time_embed", false},
                                   {"conv", true},
                                   {"skip", true}};
  if (options.condition_width > 0) {
    config["clip_dim"] = options.condition_width;
    config["num_clip_token"] = options.condition_tokens;
  } else {
    config["num_classes"] = options.vocabulary > 0 ? options.vocabulary + 1 : -1;
    if (options.vocabulary > 0) add_class_names(config, runs::load_class_names(folder, options.vocabulary));
  }
  return {.files = {{config_file, config.dump(2) + "\n"}}};
}

std::string lack(const runs::ModelOptions& model) {
  return lack_of_layers(model.as<tasks::images::UVitOptions>(), name);
}

}  // namespace
}  // namespace cogwheel::interchange::u_vit

namespace cogwheel::interchange {

Architecture u_vit_of_bao() {
  return {
      u_vit::name, "a U-ViT that predicts noise (baofff/U-ViT)", u_vit::is, u_vit::lack, u_vit::tensors, u_vit::read,
      u_vit::write};
}

}  // namespace cogwheel::interchange
