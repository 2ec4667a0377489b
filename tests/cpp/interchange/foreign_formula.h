// The foreign models as dense formulas in float64 over their own names.
#pragma once
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "interchange/foreign_example.h"

namespace cogwheel::interchange {

struct ForeignFormula {
  const NamedTensors& weights;
  double epsilon = 1e-12;

  at::Tensor weight(const std::string& name) const { return weights.at(name).to(at::kDouble); }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    const at::Tensor product = x.matmul(weight(name + ".weight").t());
    return weights.contains(name + ".bias") ? product + weight(name + ".bias") : product;
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, weight(name + ".weight"), weight(name + ".bias"), epsilon);
  }
  static at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
    const auto heads = [](const at::Tensor& x) { return x.unflatten(-1, {example_heads, -1}).transpose(1, 2); };
    const double scale = std::sqrt(static_cast<double>(example_width) / static_cast<double>(example_heads));
    const at::Tensor scores = heads(query).matmul(heads(key).transpose(-1, -2)) / scale;
    return scores.softmax(-1).matmul(heads(value)).transpose(1, 2).flatten(2);
  }
  at::Tensor patches(const std::string& name, const at::Tensor& images) const {
    return at::conv2d(images, weight(name + ".weight"), weight(name + ".bias"), 4).flatten(2).transpose(1, 2);
  }

  at::Tensor bert_states(const at::Tensor& tokens, const at::Tensor& segments) const {
    const std::string embeddings = "bert.embeddings.";
    at::Tensor x = weight(embeddings + "word_embeddings.weight").index({tokens}) +
                   weight(embeddings + "token_type_embeddings.weight").index({segments}) +
                   weight(embeddings + "position_embeddings.weight").slice(0, 0, tokens.size(1));
    x = norm(embeddings + "LayerNorm", x);
    for (const std::string layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1."}) {
      const std::string self = layer + "attention.self.";
      const at::Tensor mixed = attention(linear(self + "query", x), linear(self + "key", x), linear(self + "value", x));
      x = norm(layer + "attention.output.LayerNorm", x + linear(layer + "attention.output.dense", mixed));
      const at::Tensor inner = at::gelu(linear(layer + "intermediate.dense", x));
      x = norm(layer + "output.LayerNorm", x + linear(layer + "output.dense", inner));
    }
    return x;
  }
  at::Tensor bert_words(const at::Tensor& states) const {
    const std::string predictions = "cls.predictions.";
    const at::Tensor read =
        norm(predictions + "transform.LayerNorm", at::gelu(linear(predictions + "transform.dense", states)));
    return read.matmul(weight("bert.embeddings.word_embeddings.weight").t()) + weight(predictions + "bias");
  }
  at::Tensor bert_classes(const at::Tensor& states) const {
    return linear("classifier", linear("bert.pooler.dense", states.select(1, 0)).tanh());
  }

  at::Tensor vit(const at::Tensor& images) const {
    at::Tensor x = patches("vit.embeddings.patch_embeddings.projection", images);
    x = at::cat({weight("vit.embeddings.cls_token").expand({x.size(0), 1, example_width}), x}, 1) +
        weight("vit.embeddings.position_embeddings");
    for (const std::string layer : {"vit.encoder.layer.0.", "vit.encoder.layer.1."}) {
      const std::string self = layer + "attention.attention.";
      const at::Tensor read = norm(layer + "layernorm_before", x);
      x = x + linear(layer + "attention.output.dense",
                     attention(linear(self + "query", read), linear(self + "key", read), linear(self + "value", read)));
      x = x + linear(layer + "output.dense",
                     at::gelu(linear(layer + "intermediate.dense", norm(layer + "layernorm_after", x))));
    }
    return linear("classifier", norm("vit.layernorm", x).select(1, 0));
  }

  at::Tensor u_vit_block(const std::string& block, at::Tensor x) const {
    const auto parts = linear(block + "attn.qkv", norm(block + "norm1", x)).chunk(3, -1);
    x = x + linear(block + "attn.proj", attention(parts[0], parts[1], parts[2]));
    return x + linear(block + "mlp.fc2", at::gelu(linear(block + "mlp.fc1", norm(block + "norm2", x))));
  }
  at::Tensor u_vit(const at::Tensor& images, const at::Tensor& times, const at::Tensor& classes,
                   const at::Tensor& vectors) const {
    const at::Tensor places = at::arange(example_width / 2, at::kFloat) / (example_width / 2.0);
    const at::Tensor angles = times.to(at::kFloat).unsqueeze(1) * (places * -std::log(10000.0)).exp();
    std::vector<at::Tensor> tokens;
    if (classes.defined()) tokens.push_back(weight("label_emb.weight").index({classes}).unsqueeze(1));
    tokens.push_back(at::cat({angles.cos(), angles.sin()}, 1).to(at::kDouble).unsqueeze(1));
    if (vectors.defined()) tokens.push_back(linear("context_embed", vectors));
    tokens.push_back(patches("patch_embed.proj", images));
    at::Tensor x = at::cat(tokens, 1) + weight("pos_embed");
    const at::Tensor first = u_vit_block("in_blocks.0.", x), second = u_vit_block("in_blocks.1.", first);
    x = u_vit_block("mid_block.", second);
    x = u_vit_block("out_blocks.0.", linear("out_blocks.0.skip_linear", at::cat({x, second}, -1)));
    x = u_vit_block("out_blocks.1.", linear("out_blocks.1.skip_linear", at::cat({x, first}, -1)));
    x = linear("decoder_pred", norm("norm", x)).slice(1, x.size(1) - 4);
    at::Tensor pixels = at::empty({images.size(0), 3, 8, 8}, at::kDouble);
    for (std::int64_t row = 0; row < 8; ++row)
      for (std::int64_t column = 0; column < 8; ++column) {
        const std::int64_t patch = row / 4 * 2 + column / 4, pixel = row % 4 * 4 + column % 4;
        pixels.select(3, column).select(2, row).copy_(x.select(1, patch).slice(1, 3 * pixel, 3 * pixel + 3));
      }
    return at::conv2d(pixels, weight("final_layer.weight"), weight("final_layer.bias"), 1, 1);
  }
};

}  // namespace cogwheel::interchange
