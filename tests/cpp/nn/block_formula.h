// A block of a transformer with softmax attention as dense formulas over named weights.
#pragma once
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <string>

namespace cogwheel::nn {

struct BlockFormula {
  torch::OrderedDict<std::string, at::Tensor> weights;
  std::int64_t heads;
  double epsilon = 1e-5;
  std::string prefix = {};  // of the names, with a dot: "layers.0."

  at::Tensor weight(const std::string& name) const { return weights[prefix + name]; }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    const at::Tensor product = x.matmul(weight(name + ".weight").t());
    return weights.contains(prefix + name + ".bias") ? product + weight(name + ".bias") : product;
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + epsilon).sqrt() * weight(name + ".weight") +
           weight(name + ".bias");
  }
  at::Tensor split(const at::Tensor& x) const {
    return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  }
  at::Tensor heads_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) const {
    at::Tensor scores = split(query).matmul(split(key).transpose(-1, -2)) /
                        std::sqrt(static_cast<double>(query.size(2)) / static_cast<double>(heads));
    if (causal)
      scores = scores.masked_fill(at::ones({query.size(1), key.size(1)}, at::kBool).triu(1),
                                  -std::numeric_limits<double>::infinity());
    return scores.softmax(-1).matmul(split(value)).transpose(1, 2).flatten(2);
  }
  at::Tensor attention(const at::Tensor& x, bool causal) const {
    const auto parts = linear("attention.query_key_value", x).chunk(3, -1);
    return linear("attention.output", heads_of(parts[0], parts[1], parts[2], causal));
  }
  at::Tensor memory_attention(const at::Tensor& x, const at::Tensor& memory) const {
    const auto parts = linear("memory_attention.key_value", memory).chunk(2, -1);
    return linear("memory_attention.output", heads_of(linear("memory_attention.query", x), parts[0], parts[1], false));
  }
  at::Tensor feed_forward(const at::Tensor& x) const {
    return linear("feed_forward.out", at::gelu(linear("feed_forward.up", x)));
  }
  at::Tensor block(at::Tensor x, bool norms_before, bool causal = false, const at::Tensor& memory = {}) const {
    const auto add = [&](const std::string& name, auto&& part) {
      x = norms_before ? x + part(norm(name, x)) : norm(name, x + part(x));
    };
    add("attention_norm", [&](const at::Tensor& read) { return attention(read, causal); });
    if (memory.defined()) add("memory_norm", [&](const at::Tensor& read) { return memory_attention(read, memory); });
    add("feed_forward_norm", [&](const at::Tensor& read) { return feed_forward(read); });
    return x;
  }
};

}  // namespace cogwheel::nn
