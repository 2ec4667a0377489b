// Small foreign folders with random weights under the names that other programs give them, written out here and not
// taken from the tables.
#pragma once
#include <torch/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/interchange/tensor_table.h"
#include "cogwheel/runs/safetensors.h"

namespace cogwheel::interchange {

struct ForeignExample {
  nlohmann::ordered_json config;
  NamedTensors weights = {};
  std::string vocabulary = {};
  std::uint64_t seed = 0;

  void add(const std::string& name, at::IntArrayRef sizes) {
    weights[name] = 0.3 * torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(++seed));
  }
  void linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias = true) {
    add(name + ".weight", {outputs, inputs});
    if (bias) add(name + ".bias", {outputs});
  }
  void norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width});
    add(name + ".bias", {width});
  }
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", config.dump());
    runs::save_safetensors({.tensors = weights, .metadata = {{"format", "pt"}}}, folder / "model.safetensors");
    if (!vocabulary.empty()) write_file(folder / "vocab.txt", vocabulary);
  }
};

constexpr std::int64_t example_width = 24, example_hidden = 20, example_heads = 3;

inline nlohmann::ordered_json transformers_example_config(const char* architecture, const char* type,
                                                          std::int64_t layers) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"hidden_size", example_width},
          {"num_hidden_layers", layers},
          {"num_attention_heads", example_heads},
          {"intermediate_size", example_hidden},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", 0.1},
          {"attention_probs_dropout_prob", 0.1},
          {"layer_norm_eps", 1e-12},
          {"initializer_range", 0.02},
          {"transformers_version", "4.57.0"},
          {"_name_or_path", "example"}};
}

// 20 pieces, 2 layers; of classes or of hidden words.
inline ForeignExample bert_example(bool classes) {
  ForeignExample bert{
      transformers_example_config(classes ? "BertForSequenceClassification" : "BertForMaskedLM", "bert", 2)};
  bert.config["vocab_size"] = 20;
  bert.config["max_position_embeddings"] = 9;
  bert.config["type_vocab_size"] = 2;
  bert.config["position_embedding_type"] = "absolute";
  bert.config["pad_token_id"] = 0;
  if (classes) bert.config["id2label"] = {{"0", "bad"}, {"1", "fair"}, {"2", "good"}};
  bert.vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter < 'a' + 15; ++letter) bert.vocabulary += std::string(1, letter) + "\n";
  bert.add("bert.embeddings.word_embeddings.weight", {20, example_width});
  bert.add("bert.embeddings.position_embeddings.weight", {9, example_width});
  bert.add("bert.embeddings.token_type_embeddings.weight", {2, example_width});
  bert.norm("bert.embeddings.LayerNorm", example_width);
  for (const std::string layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1."}) {
    for (const char* part : {"query", "key", "value"})
      bert.linear(layer + "attention.self." + part, example_width, example_width);
    bert.linear(layer + "attention.output.dense", example_width, example_width);
    bert.norm(layer + "attention.output.LayerNorm", example_width);
    bert.linear(layer + "intermediate.dense", example_width, example_hidden);
    bert.linear(layer + "output.dense", example_hidden, example_width);
    bert.norm(layer + "output.LayerNorm", example_width);
  }
  if (classes) {
    bert.linear("bert.pooler.dense", example_width, example_width);
    bert.linear("classifier", example_width, 3);
  } else {
    bert.linear("cls.predictions.transform.dense", example_width, example_width);
    bert.norm("cls.predictions.transform.LayerNorm", example_width);
    bert.add("cls.predictions.bias", {20});
  }
  return bert;
}

// Images of 3 × 8 × 8, patches of 4 × 4, 5 classes, 2 layers.
inline ForeignExample vit_example() {
  ForeignExample vit{transformers_example_config("ViTForImageClassification", "vit", 2)};
  vit.config["image_size"] = 8;
  vit.config["patch_size"] = 4;
  vit.config["num_channels"] = 3;
  vit.config["qkv_bias"] = true;
  vit.config["id2label"] = {{"0", "ant"}, {"1", "bee"}, {"2", "cat"}, {"3", "dog"}, {"4", "elk"}};
  vit.add("vit.embeddings.cls_token", {1, 1, example_width});
  vit.add("vit.embeddings.position_embeddings", {1, 5, example_width});
  vit.add("vit.embeddings.patch_embeddings.projection.weight", {example_width, 3, 4, 4});
  vit.add("vit.embeddings.patch_embeddings.projection.bias", {example_width});
  for (const std::string layer : {"vit.encoder.layer.0.", "vit.encoder.layer.1."}) {
    for (const char* part : {"query", "key", "value"})
      vit.linear(layer + "attention.attention." + part, example_width, example_width);
    vit.linear(layer + "attention.output.dense", example_width, example_width);
    vit.norm(layer + "layernorm_before", example_width);
    vit.norm(layer + "layernorm_after", example_width);
    vit.linear(layer + "intermediate.dense", example_width, example_hidden);
    vit.linear(layer + "output.dense", example_hidden, example_width);
  }
  vit.norm("vit.layernorm", example_width);
  vit.linear("classifier", example_width, 5);
  return vit;
}

// Images of 3 × 8 × 8, patches of 4 × 4, 5 layers, or 1 of depth 0; conditioned on "nothing", "classes", 6 of them, or
// "vectors".
inline ForeignExample u_vit_example(const std::string& condition = "nothing", int depth = 4) {
  ForeignExample u_vit{{{"architectures", {"UViT"}},
                        {"img_size", 8},
                        {"patch_size", 4},
                        {"in_chans", 3},
                        {"embed_dim", example_width},
                        {"depth", depth},
                        {"num_heads", example_heads},
                        {"mlp_ratio", 5.0 / 6},
                        {"qkv_bias", false},
                        {"mlp_time_embed", false}}};
  std::int64_t tokens = 5;
  u_vit.config["num_classes"] = -1;
  if (condition == "classes") {
    u_vit.config["num_classes"] = 7;
    u_vit.add("label_emb.weight", {7, example_width});
    tokens += 1;
  } else if (condition == "vectors") {
    u_vit.config.erase("num_classes");
    u_vit.config["clip_dim"] = 10;
    u_vit.config["num_clip_token"] = 2;
    u_vit.linear("context_embed", 10, example_width);
    tokens += 2;
  }
  u_vit.add("patch_embed.proj.weight", {example_width, 3, 4, 4});
  u_vit.add("patch_embed.proj.bias", {example_width});
  u_vit.add("pos_embed", {1, tokens, example_width});
  for (const std::string block : {"in_blocks.0.", "in_blocks.1.", "mid_block.", "out_blocks.0.", "out_blocks.1."}) {
    if (depth == 0 && block != "mid_block.") continue;
    u_vit.norm(block + "norm1", example_width);
    u_vit.linear(block + "attn.qkv", example_width, 3 * example_width, false);
    u_vit.linear(block + "attn.proj", example_width, example_width);
    u_vit.norm(block + "norm2", example_width);
    u_vit.linear(block + "mlp.fc1", example_width, example_hidden);
    u_vit.linear(block + "mlp.fc2", example_hidden, example_width);
    if (block.starts_with("out")) u_vit.linear(block + "skip_linear", 2 * example_width, example_width);
  }
  u_vit.norm("norm", example_width);
  u_vit.linear("decoder_pred", example_width, 3 * 4 * 4);
  u_vit.add("final_layer.weight", {3, 3, 3, 3});
  u_vit.add("final_layer.bias", {3});
  return u_vit;
}

inline std::vector<ForeignExample> all_foreign_examples() {
  return {bert_example(false),        bert_example(true),       vit_example(),
          u_vit_example("nothing"),   u_vit_example("classes"), u_vit_example("vectors"),
          u_vit_example("nothing", 0)};
}

}  // namespace cogwheel::interchange
