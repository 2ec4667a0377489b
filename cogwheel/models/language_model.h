// The decoder-only language model: one topology, whose norms, positions and feed-forward are options.
//
//   x = token embedding + position embedding
//   x = x + attention(norm(x));  x = x + feed_forward(norm(x))      for each layer
//   logits = head(norm(x))
//
// The GPT form: learned positions, LayerNorm, GELU (Radford et al. 2019; as in nanoGPT).
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/models/decoder_layer.h"

namespace cogwheel {

struct LanguageModelOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;  // tokens in a window, and rows of the position table
  std::int64_t layers = 4;
  std::int64_t heads = 4;  // of a softmax layer; a differential layer has half as many, twice as wide
  std::int64_t width = 128;
  std::int64_t feed_forward = 0;  // hidden units; 0: 4·width
  bool bias = false;              // in every linear layer, every norm and the untied head
  bool tied_head = true;          // the head reads the token embedding
  std::string mechanism = "softmax";
  std::int64_t first_softmax_layers = 0;  // these many layers at either end stay softmax
  std::int64_t last_softmax_layers = 0;

  std::int64_t feed_forward_width() const { return feed_forward == 0 ? 4 * width : feed_forward; }
};

// Throws UsageError naming the first option that cannot be: "model.heads: expected …, got …".
void check(const LanguageModelOptions& options);

// The mechanism of a layer, counted from 0.
std::string layer_mechanism(const LanguageModelOptions& options, std::int64_t layer);

// Every learnable number, a tied head counted once. Allocates nothing.
std::int64_t parameter_count(const LanguageModelOptions& options);

class LanguageModelImpl : public torch::nn::Module {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit LanguageModelImpl(const LanguageModelOptions& options);

  // N(0, 0.02²); the projections that write into the residual stream N(0, 0.02²/2L); biases 0, gains 1.
  // Each tensor draws from a generator of its own, seeded by `seed` and its name, so that two mechanisms start from the
  // same values wherever their tensors agree: seeds are paired between mechanisms, not only within one.
  void initialize(std::uint64_t seed);

  at::Tensor forward(const at::Tensor& tokens);  // [B, N] int64, N ≤ context → logits [B, N, V]

  // Mean cross-entropy in nats per token; targets [B, N].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);

  // Per layer the weights that its heads apply to the values, [B, H, N, N]; differential: the effective difference,
  // over its halved heads. For pictures.
  std::vector<at::Tensor> attention_maps(const at::Tensor& tokens);

  const LanguageModelOptions& options() const { return options_; }

 private:
  at::Tensor embed(const at::Tensor& tokens);
  at::Tensor logits(const at::Tensor& hidden);

  LanguageModelOptions options_;
  at::Tensor token_embedding_, position_embedding_;  // [vocabulary, width], [context, width]
  std::vector<DecoderLayer> layers_;
  LayerNorm final_norm_{nullptr};
  Linear head_{nullptr};  // empty where the head is tied
};
TORCH_MODULE(LanguageModel);

}  // namespace cogwheel
